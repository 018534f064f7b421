"""What is left of a caller's limits, as headers: OpenAI's names, and Anthropic's on its paths."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from proxy.dialects import Dialect, anthropic
from scheduler.protocol import Left, Rate

Header = tuple[bytes, bytes]
NAMES = tuple(
    f"x-ratelimit-{figure}-{what}"
    for what in ("requests", "tokens")
    for figure in ("limit", "remaining", "reset")
)
"""OpenAI's, of which a browser lets pages read what they are told of."""


def rate_headers(rate: Rate | None, dialect: Dialect) -> list[Header]:
    """None for a caller without limits."""
    if rate is None:
        return []
    found: list[Header] = []
    for what, left in ((b"requests", rate.requests), (b"tokens", rate.tokens)):
        if left is not None:
            found += _openai(what, left)
            if dialect is anthropic.error_answer:
                found += _anthropic(what, left)
    return found


def _openai(what: bytes, left: Left) -> list[Header]:
    return [
        (b"x-ratelimit-limit-" + what, b"%d" % left.limit),
        (b"x-ratelimit-remaining-" + what, b"%d" % left.left),
        (b"x-ratelimit-reset-" + what, b"%ds" % math.ceil(left.seconds)),
    ]


def _anthropic(what: bytes, left: Left) -> list[Header]:
    reset = datetime.now(UTC) + timedelta(seconds=math.ceil(left.seconds))
    begins = b"anthropic-ratelimit-" + what
    return [
        (begins + b"-limit", b"%d" % left.limit),
        (begins + b"-remaining", b"%d" % left.left),
        (begins + b"-reset", reset.strftime("%Y-%m-%dT%H:%M:%SZ").encode()),
    ]
