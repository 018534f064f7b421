"""What a request runs under and may use, as whoever asks for its lease says it."""

from __future__ import annotations

from dataclasses import dataclass

from .protocol import Limit


@dataclass(frozen=True, slots=True)
class Charge:
    """`id` is of the asker's own making, and the same when the request is tried again. `cap` is
    what its answer may take at most; None: as its preset allows."""

    limits: tuple[Limit, ...] = ()
    id: str = ""
    prompt: int = 0
    cap: int | None = None


NO_CHARGE = Charge()
