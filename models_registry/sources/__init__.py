"""Where models are found: each source is read here, without the database."""
