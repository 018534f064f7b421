"""Prompts and answers of teams that want them kept: seen, redacted, kept for some days."""
