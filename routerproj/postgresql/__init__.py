"""Django's backend for PostgreSQL, with one writer at a time."""
