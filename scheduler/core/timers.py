"""When the planner wants to be told the time: at the earliest thing that only time brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .decisions import Decision, WakeAt
from .instances import Instance


def deadlines(instances: Iterable[Instance], load_stall_seconds: float) -> Iterator[float]:
    """Exits that are asked for, and loads that may stall."""
    for instance in instances:
        for due in (instance.kill_at, instance.stalls_at(load_stall_seconds)):
            if due is not None:
                yield due


class Timer:
    """Said again only when it is not yet set."""

    def __init__(self) -> None:
        self._at: float | None = None

    def set(self, dues: Iterable[float], now: float) -> list[Decision]:
        earliest = min(dues, default=None)
        if earliest is None:
            self._at = None
            return []
        if self._at is not None and now < self._at <= earliest:
            return []
        self._at = earliest
        return [WakeAt(earliest)]
