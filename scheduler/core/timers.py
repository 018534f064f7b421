"""When the planner wants to be told the time: at the earliest thing that only time brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .decisions import Decision, WakeAt
from .instances import Instance
from .states import SETTLED
from .values import Config

_EVER = float("inf")


def idle_end(instance: Instance, config: Config, *, wanted: bool) -> float | None:
    """V5: when it has been idle for its keep-alive, counted from the later of its load and its
    last release; None while it is wanted, pinned, or kept until its room is needed. With a
    keep-alive of 0 a person's or a start-up load waits for its first use."""
    if (
        wanted
        or instance.leases
        or instance.state not in SETTLED
        or instance.preset.pinned
        or instance.remote
    ):
        return None
    seconds = kept_for(instance, config)
    if seconds == _EVER or (seconds == 0 and not instance.used and not instance.unwanted):
        return None
    return max(instance.loaded_at, instance.released_at) + seconds


def kept_for(instance: Instance, config: Config) -> float:
    """Its preset's keep-alive, or what those who have used it agree to be enough: the longest of
    their wishes, so that none shortens what another counts on."""
    own = instance.preset.keep_alive_seconds
    if own is None:
        own = config.keep_alive_seconds
    own = _EVER if own is None or own < 0 else own
    wishes = instance.wishes.values()
    if not wishes or instance.for_people or None in wishes:
        return own
    return min(own, max(_EVER if wish is None or wish < 0 else wish for wish in wishes))


def still_kept(instance: Instance, config: Config, now: float) -> float | None:
    """Seconds; of a busy one from its next idle moment on. None: until its room is needed."""
    seconds = kept_for(instance, config)
    if seconds == _EVER or instance.preset.pinned:
        return None
    if instance.leases or instance.state not in SETTLED:
        return seconds
    return max(0.0, max(instance.loaded_at, instance.released_at) + seconds - now)


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
