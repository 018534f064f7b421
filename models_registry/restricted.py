"""What of a preset only those may change who may do everything, and what they alone read."""

from __future__ import annotations

import re

RESTRICTED = (
    "extra_options",
    "environment",
    "engine",
    "command_line",
    "health_path",
    "upstream_url",
    "upstream_key",
)
"""Fields of a preset. Whoever may write any option may make the engine take any memory and time;
variables reach the engine's libraries; a command line runs programs, a URL reaches other machines,
and a key is sent there."""

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|PRIVATE", re.IGNORECASE)
HIDDEN = "••••"


def masked(environment: str) -> str:
    """The lines of `environment`, without the values of what is called like a secret."""
    return "\n".join(map(_masked_line, environment.splitlines()))


def _masked_line(line: str) -> str:
    name, equals, _ = line.partition("=")
    return f"{name}={HIDDEN}" if equals and _SECRET.search(name) else line
