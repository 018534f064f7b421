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
    """Either `ok`, an object, or `error`. A line that could not be read is answered with id -1."""

    id: int
    ok: Any = None
    error: ErrorBody | None = None


class ReplyLine(msgspec.Struct, frozen=True):
    """The same as it is read by whoever knows best what `ok` is: as it stands in the line."""

    id: int
    ok: msgspec.Raw = msgspec.Raw(b"")
    error: ErrorBody | None = None
