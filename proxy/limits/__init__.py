"""Limits as the gateway knows them: whose they are, what a request reserves, what clients are told.
The scheduler counts (scheduler/core/limits.py); docs/limits.md is for people."""
