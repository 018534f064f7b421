"""Why do I wait, and for how long still? Nothing here changes anything (V4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from itertools import islice

from .admission import Admission, Outcome
from .books import Books
from .draining import Draining
from .estimates import Estimates
from .line import Waiter
from .states import State
from .values import InstanceId, Kind, PresetName, Priority, RequestId, TenantId
from .wait_queue import Entry

MOST_AHEAD = 20
"""Entries before a waiter's own that are named."""
MOST_ESTIMATED = 512
"""Entries for which a load is estimated; those behind them have no estimate."""


class Holdup(StrEnum):
    """What somebody waits for."""

    TURN = auto()  # other models are to be loaded first
    LOADER = auto()  # it is next; another load is under way
    ROOM = auto()  # it is next; `victims` are on their way out for it
    BUSY = auto()  # it is next; all that could make way answer, and may until `drain_in`
    MEMORY = auto()  # others than Corral use the memory that it needs; others load meanwhile
    DETACHED = auto()  # all that could make way answer, and its clients have gone; others load
    MEASURING = auto()  # what it takes is being measured; others load meanwhile
    LOAD = auto()  # its model loads
    SLOT = auto()  # its model is loaded, and answers as many as it can


@dataclass(frozen=True, slots=True)
class QueuedPreset:
    """An entry as others may see it. `oldest` is when its first waiter arrived; `seconds` is the
    estimate until its first waiter is served; `drain_in` is when a busy instance takes no new
    request for its sake, at the latest."""

    preset: PresetName
    waiters: int
    oldest: float
    holdup: Holdup
    victims: tuple[InstanceId, ...] = ()
    drain_in: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one waiter. `turn` 1: its model is the next to load; 0: it needs no load. `position` is
    that among those who wait for its model; 1: the next. Times are seconds."""

    request: RequestId
    preset: PresetName
    tenant: TenantId
    kind: Kind
    priority: Priority
    waited: float
    holdup: Holdup
    turn: int
    position: int
    ahead: tuple[QueuedPreset, ...]
    victims: tuple[InstanceId, ...]
    drain_in: float | None
    seconds: float | None


_SKIPPED_FOR = {
    Outcome.WAITS_FOR_FIGURES: Holdup.MEASURING,
    Outcome.WAITS_FOR_OTHERS: Holdup.MEMORY,
    Outcome.WAITS_FOR_IDLE: Holdup.DETACHED,
}

_InTheQueue = tuple[int, list[QueuedPreset], QueuedPreset]
"""An entry's turn, the entries before it, and itself."""


class Explaining:
    def __init__(
        self, books: Books, admission: Admission, estimates: Estimates, draining: Draining
    ) -> None:
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._admission = admission
        self._estimates = estimates
        self._draining = draining

    def entries(self, now: float) -> list[QueuedPreset]:
        """In the order of the queue."""
        keyed = sorted(
            ((self._order.key(entry, now), entry) for entry in self._queue.entries.values()),
            key=lambda pair: pair[0],
        )
        pending = [entry for _, entry in keyed if entry.preset in self._order]
        told = {queued.preset: queued for queued in self._pending_told(pending, now)}
        return [told.get(e.preset) or self._served_told(e, now) for _, e in keyed]

    def explain(self, request: RequestId, now: float) -> Explanation | None:
        """None for one that does not wait."""
        waiter = self._queue.find(request)
        if waiter is None:
            return None
        entry = self._queue.entries[waiter.preset]
        position = self._position(waiter, entry, now)
        return self._explained(waiter, position, self._in_the_queue(entry, now), now)

    def waiters(
        self, preset: PresetName, now: float, *, offset: int, limit: int
    ) -> tuple[int, list[Explanation]]:
        """How many wait for the preset, and one page of them, the next first."""
        entry = self._queue.entries.get(preset)
        if entry is None:
            return 0, []
        place = self._in_the_queue(entry, now)
        page = islice(self._order.in_order(entry, now), offset, offset + limit)
        return len(entry), [
            self._explained(waiter, position, place, now)
            for position, waiter in enumerate(page, offset + 1)
        ]

    def behind(self, entry: Entry, now: float) -> tuple[QueuedPreset, float | None]:
        """The entry, and when one is served who comes after all its waiters."""
        told = self._in_the_queue(entry, now)[2]
        return told, self._seconds(told, len(entry) + 1, now)

    def after_all(self, entry: Entry, now: float, *, waits_for_room: bool) -> float | None:
        """When an entry is loaded that is not in the queue, after all that are. `waits_for_room`:
        it would, if there were no others."""
        before = sorted(self._order, key=lambda each: self._order.key(each, now))
        waits = self._waits_for_room if before else waits_for_room
        entries = [*before[:MOST_ESTIMATED], entry]
        return self._estimates.until_loaded(entries, now, waits_for_room=waits)[-1]

    def _explained(
        self, waiter: Waiter, position: int, place: _InTheQueue, now: float
    ) -> Explanation:
        turn, ahead, told = place
        return Explanation(
            request=waiter.request,
            preset=waiter.preset,
            tenant=waiter.tenant,
            kind=waiter.kind,
            priority=waiter.priority,
            waited=max(0.0, now - waiter.arrived),
            holdup=told.holdup,
            turn=turn,
            position=position,
            ahead=tuple(ahead[:MOST_AHEAD]),
            victims=told.victims,
            drain_in=told.drain_in,
            seconds=self._seconds(told, position, now),
        )

    def _in_the_queue(self, entry: Entry, now: float) -> _InTheQueue:
        """Its turn, the entries before it, and itself."""
        if entry.preset not in self._order:
            return 0, [], self._served_told(entry, now)
        own = self._order.key(entry, now)
        before = [e for e in self._order if e is not entry and self._order.key(e, now) < own]
        before.sort(key=lambda e: self._order.key(e, now))
        told = self._pending_told([*before, entry], now)
        return len(told), told[:-1], told[-1]

    def _position(self, waiter: Waiter, entry: Entry, now: float) -> int:
        in_order = enumerate(self._order.in_order(entry, now), 1)
        return next(position for position, other in in_order if other is waiter)

    def _seconds(self, told: QueuedPreset, position: int, now: float) -> float | None:
        if told.holdup is Holdup.SLOT:
            instance = self._fleet.current(told.preset)
            return None if instance is None else self._estimates.until_slot(instance, position, now)
        if told.seconds is None:
            return None
        return told.seconds + self._estimates.after_load(told.preset, position)

    def _pending_told(self, entries: Sequence[Entry], now: float) -> list[QueuedPreset]:
        seconds = self._estimates.until_loaded(
            entries[:MOST_ESTIMATED], now, waits_for_room=self._waits_for_room
        )
        missing = [None] * (len(entries) - len(seconds))
        return [
            self._told(entry, self._holdup(entry), estimate, now)
            for entry, estimate in zip(entries, [*seconds, *missing], strict=True)
        ]

    @property
    def _waits_for_room(self) -> bool:
        """Whether the head does, as of the last look."""
        held_up = self._admission.held_up
        return held_up is not None and held_up[1] is Outcome.WAITS_FOR_ROOM

    def _holdup(self, entry: Entry) -> Holdup:
        if any(number in self._fleet.instances for number in entry.room):
            return Holdup.ROOM
        held_up = self._admission.held_up
        if held_up is None or held_up[0] != entry.preset:
            return Holdup.TURN
        return Holdup.LOADER if held_up[1] is Outcome.WAITS_FOR_LOADER else Holdup.BUSY

    def _served_told(self, entry: Entry, now: float) -> QueuedPreset:
        current = self._fleet.current(entry.preset)
        if skipped := self._admission.skipped.get(entry.preset):
            return self._told(entry, _SKIPPED_FOR[skipped], None, now)
        if current is not None and current.state is State.LOADING:
            return self._told(entry, Holdup.LOAD, self._estimates.load_left(current, now), now)
        seconds = None if current is None else self._estimates.until_slot(current, 1, now)
        return self._told(entry, Holdup.SLOT, seconds, now)

    def _victims(self, entry: Entry, holdup: Holdup) -> tuple[InstanceId, ...]:
        """Who is on the way out for it; or who will drain for it, if nothing changes."""
        coming = self._draining.next
        if holdup is Holdup.BUSY and coming is not None and coming.id in self._fleet.instances:
            return (coming.id,)
        return tuple(n for n in entry.room if n in self._fleet.instances)

    def _told(
        self, entry: Entry, holdup: Holdup, seconds: float | None, now: float
    ) -> QueuedPreset:
        drain_at = self._draining.next_at if holdup is Holdup.BUSY else None
        return QueuedPreset(
            preset=entry.preset,
            waiters=len(entry),
            oldest=entry.oldest,
            holdup=holdup,
            victims=self._victims(entry, holdup),
            drain_in=None if drain_at is None else max(0.0, drain_at - now),
            seconds=seconds,
        )
