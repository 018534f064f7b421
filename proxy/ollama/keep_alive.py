"""How long a client wishes its model to be kept. Pure."""

from __future__ import annotations

import math
import re

from scheduler.protocol import Refused

EVER = -1.0
_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|[\u00b5\u03bc]s|ms|s|m|h)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_LONGEST_TEXT = 64


def keep_alive_of(value: object) -> float | None:
    """Seconds, EVER for what is below 0, None where nothing is wished. A number is seconds, a text
    a duration as Go writes it (`5m`, `1h30m`), or a number, which Ollama itself refuses in a text.
    Raises Refused."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Refused("invalid_request", "`keep_alive` must be a number or a duration such as 5m.")
    try:
        seconds = _duration(value) if isinstance(value, str) else float(value)
    except OverflowError:  # an integer of hundreds of digits
        return EVER
    return EVER if seconds < 0 or math.isinf(seconds) else seconds


def _duration(text: str) -> float:
    if len(text) <= _LONGEST_TEXT:
        if _NUMBER.fullmatch(text):
            return float(text)
        unsigned = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
        parts = list(_PART.finditer(unsigned))
        if parts and "".join(part[0] for part in parts) == unsigned:
            seconds = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
            return -seconds if text.startswith("-") else seconds
    raise Refused(
        "invalid_request",
        f'time: invalid duration "{text[:_LONGEST_TEXT]}": `keep_alive` is a number of seconds, or '
        "a duration such as 30s, 5m or 1h30m; below 0 means as long as possible.",
    )
