"""How long would a request wait that came now? Nothing here changes anything (V4)."""

from __future__ import annotations

from dataclasses import dataclass

from .books import Books
from .door import Door
from .estimates import Estimates
from .explaining import Explaining, Holdup
from .fitting import Fitting
from .states import State
from .values import Code, PresetName, Refusal
from .wait_queue import Entry


@dataclass(frozen=True, slots=True)
class Upcoming:
    """`holdup` None: nothing holds it up. `seconds` None: that is not known, or it would be
    refused, at once or (Code.MEMORY_IN_USE) in the end. `makes_way` would go for it."""

    seconds: float | None
    holdup: Holdup | None = None
    makes_way: tuple[PresetName, ...] = ()
    refusal: Refusal | None = None
    failed: bool = False
    """Its last load did, and it is tried again."""


class UpcomingRequests:
    def __init__(
        self,
        books: Books,
        door: Door,
        explaining: Explaining,
        estimates: Estimates,
        fitting: Fitting,
    ) -> None:
        self._door = door
        self._presets = books.presets
        self._failures = books.failures
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._explaining = explaining
        self._estimates = estimates
        self._fitting = fitting

    def next_for(self, preset: PresetName, now: float) -> Upcoming:
        """Of one tenant and of normal priority, as if it came last."""
        if refusal := self._door.refusal_of_one_more(preset, now):
            return Upcoming(None, refusal=refusal)
        entry = self._queue.entries.get(preset)
        if entry is not None:
            told, seconds = self._explaining.behind(entry, now)
            victims = (self._fleet.instances[number].preset.name for number in told.victims)
            return Upcoming(seconds, told.holdup, tuple(victims))
        current = self._fleet.current(preset)
        if current is None or current.state is State.SLEEPING:
            return self._to_be_loaded(preset, now)
        if current.state is State.LOADING:
            return Upcoming(self._estimates.load_left(current, now), Holdup.LOAD)
        if current.has_free_slot:
            return Upcoming(0.0)
        return Upcoming(self._estimates.until_slot(current, 1, now), Holdup.SLOT)

    def _to_be_loaded(self, preset: PresetName, now: float) -> Upcoming:
        fit = self._fitting.now(self._presets[preset], now)
        if (none := fit.no_place) is not None:
            refusal = Refusal(
                none.code, blocked_by=none.blocked_by, apart=none.apart, short=none.short
            )
            return Upcoming(None, refusal=refusal)
        broken = self._failures.broken(preset)
        if broken is not None and (fit.evicts or fit.waits):
            return Upcoming(None, refusal=Refusal(Code.MODEL_BROKEN, exit=broken))
        seconds = self._explaining.after_all(Entry(preset, now), now, waits_for_room=fit.waits)
        if len(self._order):
            holdup = Holdup.TURN
        elif fit.waits:
            holdup = Holdup.BUSY
        else:
            holdup = Holdup.ROOM if fit.evicts else Holdup.LOAD
        failed = preset in self._failures.view
        return Upcoming(seconds, holdup, fit.evicts, failed=failed)
