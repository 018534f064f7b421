"""The registry's part of the management API."""
