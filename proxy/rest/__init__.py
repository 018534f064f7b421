"""The management API's routes of teams, members and keys."""
