"""When the planner wants to be told the time: at the earliest thing that only time brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .decisions import Decision, WakeAt
from .instances import Instance
from .states import SETTLED
from .values import Config


def idle_end(instance: Instance, config: Config, *, wanted: bool) -> float | None:
    """V5: when it has been idle for its keep-alive, counted from the later of its load and its
    last release; None while it is wanted, pinned, or kept until its room is needed. With a
    keep-alive of 0 a person's or a start-up load waits for its first use."""
    seconds = instance.preset.keep_alive_seconds
    if seconds is None:
        seconds = config.keep_alive_seconds
    if (
        seconds is None
        or seconds < 0
        or instance.remote
        or wanted
        or instance.leases
        or instance.preset.pinned
        or instance.state not in SETTLED
        or (seconds == 0 and not instance.used and not instance.unwanted)
    ):
        return None
    return max(instance.loaded_at, instance.released_at) + seconds


def deadlines(instance: Instance, config: Config, *, wanted: bool) -> Iterator[float]:
    """Its exit that was asked for, a load that may stall, a look's time, its idle end."""
    if instance.kill_at is not None:
        yield instance.kill_at
    if (stalled := instance.stalls_at(config.load_stall_seconds)) is not None:
        yield stalled
    if instance.looks:
        yield min(instance.looks.values())
    if (ends := idle_end(instance, config, wanted=wanted)) is not None:
        yield ends


class Timer:
    """Said again only when it is not yet set."""

    def __init__(self) -> None:
        self._at: float | None = None

    def set(self, dues: Iterable[float | None], now: float) -> list[Decision]:
        earliest: float | None = None
        for due in dues:
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        if earliest is None:
            self._at = None
            return []
        if self._at is not None and now < self._at <= earliest:
            return []
        self._at = earliest
        return [WakeAt(earliest)]
