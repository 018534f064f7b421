"""Who waits, and in which order. The only place that knows fairness (A1).

The queue holds presets, not requests: each preset that is waited for has one entry, and entries
stand in the order of their oldest waiter still waiting. Loads that nobody's request stands behind
(a person's, then start-up's) come after every request.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import count

from .values import InstanceId, Kind, PresetName, RequestId

_RANK = {Kind.POST: 0, Kind.WEBSOCKET: 0, Kind.LOAD: 1, Kind.STARTUP: 2}
_NEVER = float("inf")
_SLACK = 64  # dead heap items that are not worth a clean-up

Place = tuple[int, float, int]
"""Rank of the kind, first arrival, order of joining: smaller is served earlier."""


@dataclass(frozen=True, slots=True)
class Waiter:
    request: RequestId
    preset: PresetName
    kind: Kind
    place: Place
    expires: float  # on its entry's clock

    @property
    def arrived(self) -> float:
        return self.place[1]


class Line:
    """Waiters by place. Leaving from the middle is free: what is dead is dropped when it surfaces,
    or when the dead outnumber the living."""

    def __init__(self) -> None:
        self._living: dict[RequestId, Waiter] = {}
        self._by_place: list[tuple[Place, Waiter]] = []
        self._by_expiry: list[tuple[float, Place, Waiter]] = []

    def __len__(self) -> int:
        return len(self._living)

    def join(self, waiter: Waiter) -> None:
        self._living[waiter.request] = waiter
        heapq.heappush(self._by_place, (waiter.place, waiter))
        heapq.heappush(self._by_expiry, (waiter.expires, waiter.place, waiter))

    def leave(self, request: RequestId) -> None:
        self._living.pop(request, None)
        if len(self._by_place) > 2 * len(self._living) + _SLACK:
            self._by_place = [item for item in self._by_place if self._lives(item[-1])]
            heapq.heapify(self._by_place)
        if len(self._by_expiry) > 2 * len(self._living) + _SLACK:
            self._by_expiry = [item for item in self._by_expiry if self._lives(item[-1])]
            heapq.heapify(self._by_expiry)

    def first(self) -> Waiter | None:
        while self._by_place and not self._lives(self._by_place[0][-1]):
            heapq.heappop(self._by_place)
        return self._by_place[0][-1] if self._by_place else None

    def first_to_expire(self) -> Waiter | None:
        while self._by_expiry and not self._lives(self._by_expiry[0][-1]):
            heapq.heappop(self._by_expiry)
        return self._by_expiry[0][-1] if self._by_expiry else None

    def in_order(self) -> list[Waiter]:
        return sorted(self._living.values(), key=lambda waiter: waiter.place)

    def _lives(self, waiter: Waiter) -> bool:
        return self._living.get(waiter.request) is waiter


@dataclass(slots=True)
class Entry:
    """A preset's place in the queue. It is gone with its last waiter."""

    preset: PresetName
    requests: Line = field(default_factory=Line)
    loads: Line = field(default_factory=Line)
    room: InstanceId | None = None  # whose exit makes room for this entry, and no other (A2)
    evict_first: bool = False  # its load ran out of memory: one victim more before the next (A4)
    await_room: bool = False  # no start before `room` has exited, though a slot be free (A4)
    _clock: float = 0.0
    _clock_runs_since: float | None = None

    def __len__(self) -> int:
        return len(self.requests) + len(self.loads)

    def needs_no_room(self) -> None:
        """It starts, or need not any more: what was made for it is its own no longer."""
        self.room, self.evict_first, self.await_room = None, False, False

    @property
    def first(self) -> Waiter:
        waiter = self.requests.first() or self.loads.first()
        assert waiter is not None, "an entry is gone with its last waiter"
        return waiter

    @property
    def place(self) -> Place:
        return self.first.place

    @property
    def startup_only(self) -> bool:
        return self.first.kind is Kind.STARTUP

    def line_of(self, kind: Kind) -> Line:
        return self.requests if _RANK[kind] == 0 else self.loads

    def clock(self, now: float) -> float:
        """Seconds that count against the queue-wait limit."""
        since = self._clock_runs_since
        return self._clock if since is None else self._clock + (now - since)

    def let_clock_run(self, now: float, *, runs: bool) -> None:
        if runs == (self._clock_runs_since is not None):
            return
        self._clock = self.clock(now)
        self._clock_runs_since = now if runs else None

    def next_expiry(self) -> tuple[float, Waiter] | None:
        """When its next waiter has waited too long; None while the clock stands."""
        if self._clock_runs_since is None:
            return None
        firsts = self.requests.first_to_expire(), self.loads.first_to_expire()
        waiter = min(
            (waiter for waiter in firsts if waiter is not None),
            key=lambda waiter: (waiter.expires, waiter.place),
        )
        if waiter.expires == _NEVER:
            return None
        return self._clock_runs_since + (waiter.expires - self._clock), waiter


class WaitQueue:
    def __init__(self, wait_seconds: float) -> None:
        self.entries: dict[PresetName, Entry] = {}
        self._waiters: dict[RequestId, Waiter] = {}
        self._wait_seconds = wait_seconds
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, request: RequestId) -> bool:
        return request in self._waiters

    def in_order(self) -> list[Entry]:
        return sorted(self.entries.values(), key=lambda entry: entry.place)

    def join(
        self, request: RequestId, preset: PresetName, kind: Kind, arrived: float, now: float
    ) -> None:
        """A second request for a queued preset joins its entry; a retry keeps its first place."""
        entry = self._entry(preset, now)
        # A start-up load is skipped when it does not fit, never because it took its turn.
        wait = _NEVER if kind is Kind.STARTUP else self._wait_seconds
        place = (_RANK[kind], arrived, next(self._numbers))
        waiter = Waiter(request, preset, kind, place, entry.clock(now) + wait)
        self._waiters[request] = waiter
        entry.line_of(kind).join(waiter)

    def _entry(self, preset: PresetName, now: float) -> Entry:
        entry = self.entries.get(preset)
        if entry is None:
            entry = self.entries[preset] = Entry(preset)
            entry.let_clock_run(now, runs=True)
        return entry

    def leave(self, request: RequestId) -> Waiter | None:
        """The waiter is gone, and with the last one its entry; None when it does not wait."""
        waiter = self._waiters.pop(request, None)
        if waiter is None:
            return None
        entry = self.entries[waiter.preset]
        entry.line_of(waiter.kind).leave(request)
        if not len(entry):
            del self.entries[waiter.preset]
        return waiter

    def move(self, preset: PresetName, to: PresetName, now: float) -> bool:
        """Its waiters wait for another preset now, in the same places, and have waited as long.
        Whether there were any."""
        entry = self.entries.pop(preset, None)
        if entry is None:
            return False
        target = self._entry(to, now)
        behind = target.clock(now) - entry.clock(now)
        for waiter in entry.requests.in_order() + entry.loads.in_order():
            moved = replace(waiter, preset=to, expires=waiter.expires + behind)
            self._waiters[waiter.request] = moved
            target.line_of(waiter.kind).join(moved)
        return True

    def next_expiry(self) -> float | None:
        """When the next of all the waiters has waited too long; None while no clock runs."""
        expiries = (entry.next_expiry() for entry in self.entries.values())
        return min((expiry[0] for expiry in expiries if expiry is not None), default=None)

    def drop(self, preset: PresetName) -> list[Waiter]:
        """The whole entry goes; its waiters in their order."""
        entry = self.entries.pop(preset, None)
        if entry is None:
            return []
        waiters = entry.requests.in_order() + entry.loads.in_order()
        for waiter in waiters:
            del self._waiters[waiter.request]
        return waiters
