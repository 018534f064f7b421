"""What comes back: an answer, or a refusal."""

from __future__ import annotations

from typing import Any

import msgspec

from .limits import Rate


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refusal on the wire. `retry_after` in seconds; `rate` is what is left of the caller's
    limits, where it has any."""

    code: str
    message: str
    retry_after: float | None = None
    rate: Rate | None = None


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either `ok` or `error`. A line that could not be read is answered with id -1."""

    id: int
    ok: dict[str, Any] | None = None
    error: ErrorBody | None = None
