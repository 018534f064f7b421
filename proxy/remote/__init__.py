"""Requests to what runs elsewhere: a preset whose engine is `upstream` (docs/upstreams.md)."""
