"""Who waits: a line per tenant in an entry per preset (A1, A8).

The queue holds presets, not requests: each preset that is waited for has one entry. Inside it each
tenant has a line of its own. Loads that nobody's request stands behind (a person's, a look's, then
start-up's) come after every request. Which entry is first stands in order.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter

from .expiries import Expiries
from .instances import Instance
from .line import Line, Waiter
from .sizes import FIXED, NO_NEED, Need, Placement
from .states import State
from .values import Config, InstanceId, Kind, PresetName, Priority, RequestId, TenantId

_RANK = {Kind.POST: 0, Kind.WEBSOCKET: 0, Kind.LOAD: 1, Kind.GET: 1, Kind.STARTUP: 2}
_SERVED = attrgetter("served")
_SLACK = 64  # dead items that are not worth a clean-up


@dataclass(frozen=True, slots=True)
class Site:
    """A place for an instance, with what its smallest context takes there. `alone`: that is a guess
    which is larger than the machine, so it is tried with nothing else there (L6)."""

    placement: Placement
    need: Need
    alone: bool = False


ANYWHERE = Site(FIXED, NO_NEED)
"""Of a preset whose memory nobody counts."""


@dataclass(slots=True, eq=False)
class Entry:
    """A preset's place in the queue. It is gone with its last waiter."""

    preset: PresetName
    since: float = 0.0  # when its first waiter came
    lines: dict[TenantId, Line] = field(default_factory=dict)
    loads: Line = field(default_factory=Line)
    size: int = 0
    detached: int = 0  # of its waiters
    turn: int = 0  # which of its times in the order this is
    head_since: float | None = None  # when it first was the next to load, since it needs a load
    room: dict[InstanceId, None] = field(default_factory=dict)  # whose exits make its room (A2)
    sites: tuple[Site, ...] = ()  # where it may go, as of the last look (L9)
    site: Site | None = None  # that of them on which room is made, or was found
    wakes: Instance | None = None  # what sleeps, and is to wake in its place (L8)
    in_use_since: float | None = None  # when others than we were found to be in its way (A6)
    evict_first: bool = False  # its load ran out of memory: one victim more before the next (A4)
    await_room: bool = False  # no start before `room` has exited, though there be room (A4)
    alarm: float | None = None  # the expiry for which it stands in the queue's heap
    expiries: Expiries = field(default_factory=Expiries)
    _clock: float = 0.0
    clock_runs_since: float | None = None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Waiter]:
        for line in self.lines.values():
            yield from line
        yield from self.loads

    @property
    def sleeper(self) -> Instance | None:
        """What is to wake for it, as long as it sleeps."""
        wakes = self.wakes
        return wakes if wakes is not None and wakes.state is State.SLEEPING else None

    @property
    def requests(self) -> int:
        """Without loads and looks."""
        return self.size - len(self.loads)

    @property
    def startup_only(self) -> bool:
        """A start-up load, and nobody beside it but who would have a look."""
        if self.lines or not self.loads:
            return False
        kinds = {waiter.kind for waiter in self.loads}
        return Kind.STARTUP in kinds and Kind.LOAD not in kinds

    @property
    def looks_only(self) -> bool:
        """Nobody waits but who would have a look (A8)."""
        return not self.lines and all(waiter.kind is Kind.GET for waiter in self.loads)

    @property
    def waits_for_nobody(self) -> bool:
        """A9: no client is there, and no person: busy instances are not drained for it."""
        if not self.detached or self.detached < self.requests:
            return False
        return all(waiter.kind is not Kind.LOAD for waiter in self.loads)

    @property
    def oldest(self) -> float:
        """When the first of its waiters arrived. It looks at each."""
        return min(waiter.arrived for waiter in self)

    def line_of(self, waiter: Waiter) -> Line:
        return self.loads if _RANK[waiter.kind] else self.lines[waiter.tenant]

    def join(self, waiter: Waiter) -> bool:
        """Whether it is the first of its line."""
        line = self.loads if _RANK[waiter.kind] else self._line(waiter.tenant)
        line.join(waiter)
        self.size += 1
        self.detached += waiter.detached
        self.expiries.add(waiter)
        return line.first is waiter

    def _line(self, tenant: TenantId) -> Line:
        """A new one has missed nothing, and what the others had before counts for nobody."""
        line = self.lines.get(tenant)
        if line is None:
            line = Line()
            line.served = min(map(_SERVED, self.lines.values()), default=0.0)
            self.lines[tenant] = line
        return line

    def leave(self, waiter: Waiter, line: Line) -> None:
        """`line` is its own."""
        waiter.waits = False
        line.leave(waiter.request)
        if line.first is None and line is not self.loads:
            del self.lines[waiter.tenant]
        self.size -= 1
        self.detached -= waiter.detached
        self.expiries.clean(self.size)

    def clock(self, now: float) -> float:
        """Seconds that count against the queue-wait limit."""
        since = self.clock_runs_since
        return self._clock if since is None else self._clock + (now - since)

    def let_clock_run(self, now: float, *, runs: bool) -> None:
        if runs == (self.clock_runs_since is not None):
            return
        self._clock = self.clock(now)
        self.clock_runs_since = now if runs else None

    def next_expiry(self) -> float | None:
        """When its next waiter has waited too long; None while the clock stands."""
        waiter = self.expiries.next()
        if waiter is None or waiter.expires is None or self.clock_runs_since is None:
            return None
        return self.clock_runs_since + (waiter.expires - self._clock)


class WaitQueue:
    """`touched` are presets whose waiters have come or gone since somebody last looked."""

    def __init__(self, config: Config) -> None:
        self.entries: dict[PresetName, Entry] = {}
        self.with_room: dict[PresetName, Entry] = {}
        """Entries for which room is made, or was."""
        self.touched: dict[PresetName, None] = {}
        self.entry_gone = False
        """Has one gone since somebody last looked?"""
        self.of_tenant: dict[TenantId, int] = {}
        """Its requests that wait; loads and looks, behind which there are none, count in no limit
        but that of the whole queue."""
        self._jump = config.max_priority_jump_seconds
        self._wait_seconds = config.queue_wait_seconds
        self._detached_seconds = config.detached_wait_seconds
        self._waiters: dict[RequestId, Waiter] = {}
        self._expiries: list[tuple[float, int, Entry]] = []
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, request: RequestId) -> bool:
        return request in self._waiters

    def find(self, request: RequestId) -> Waiter | None:
        return self._waiters.get(request)

    def join(
        self,
        request: RequestId,
        preset: PresetName,
        kind: Kind,
        arrived: float,
        now: float,
        *,
        tenant: TenantId = TenantId(""),  # noqa: B008 - a plain string
        weight: float = 1.0,
        priority: Priority = Priority.NORMAL,
        sticky: str = "",
    ) -> Waiter:
        """A second request for a queued preset joins its entry; a retry keeps its first place.
        `priority` is that of the tenant and of the preset together."""
        entry = self._entry(preset, now)
        # A start-up load is skipped when it does not fit, never because it took its turn.
        expires = None if kind is Kind.STARTUP else entry.clock(now) + self._wait_seconds
        bonus = self._jump * priority / Priority.HIGH
        place = (_RANK[kind], arrived - bonus, next(self._numbers))
        waiter = Waiter(
            request, preset, kind, tenant, weight, priority, arrived, place, expires, sticky=sticky
        )
        self._add(waiter, entry)
        return waiter

    def _add(self, waiter: Waiter, entry: Entry) -> None:
        self._waiters[waiter.request] = waiter
        if not _RANK[waiter.kind]:
            self.of_tenant[waiter.tenant] = self.of_tenant.get(waiter.tenant, 0) + 1
        waited_for_nobody = entry.waits_for_nobody
        # Behind another of its line it changes nothing but the line's length.
        if entry.join(waiter) or waited_for_nobody:
            self.touched[entry.preset] = None

    def _entry(self, preset: PresetName, now: float) -> Entry:
        entry = self.entries.get(preset)
        if entry is None:
            entry = self.entries[preset] = Entry(preset, now)
            entry.let_clock_run(now, runs=True)
            self.touched[preset] = None
        return entry

    def leave(self, request: RequestId) -> Waiter | None:
        """The waiter is gone, and with the last one its entry; None when it does not wait."""
        waiter = self._waiters.pop(request, None)
        if waiter is None:
            return None
        entry = self.entries[waiter.preset]
        line = entry.line_of(waiter)
        if line.first is waiter:
            self.touched[entry.preset] = None
        entry.leave(waiter, line)
        self._forget(waiter)
        if not entry.size:
            self._remove(entry)
        return waiter

    def serve(self, waiter: Waiter, seconds: float) -> bool:
        """It is about to leave its line for an answer that will use so many. Whether there is
        another line, to whose turns that matters."""
        entry = self.entries[waiter.preset]
        if _RANK[waiter.kind] or len(entry.lines) < 2:
            return False
        entry.lines[waiter.tenant].served += seconds / waiter.weight
        return True

    def correct(self, preset: PresetName, tenant: TenantId, seconds: float) -> None:
        """Its answer has used so many more, over its weight, than it was thought to use."""
        entry = self.entries.get(preset)
        if entry is not None and (line := entry.lines.get(tenant)) is not None:
            line.served += seconds

    def detach(self, request: RequestId, now: float) -> None:
        """A9: its client has lost its connection. Harmless for one that does not wait."""
        waiter = self._waiters.get(request)
        if waiter is None or waiter.detached or _RANK[waiter.kind]:
            return
        entry = self.entries[waiter.preset]
        waiter.detached = True
        entry.detached += 1
        entry.expiries.shorten(waiter, entry.clock(now) + self._detached_seconds)
        self.touched[entry.preset] = None
        if entry.expiries.next() is waiter:
            entry.alarm = None
            self.watch_expiry(entry)

    def drop(self, preset: PresetName) -> list[Waiter]:
        """The whole entry goes; its waiters in the order of their places."""
        entry = self.entries.get(preset)
        if entry is None:
            return []
        waiters = sorted(entry, key=lambda waiter: waiter.place)
        for waiter in waiters:
            waiter.waits = False
            del self._waiters[waiter.request]
            self._forget(waiter)
        self._remove(entry)
        return waiters

    def move(self, preset: PresetName, to: PresetName, now: float) -> bool:
        """Its waiters wait for another preset now, in the same places, and have waited as long.
        Whether there were any."""
        entry = self.entries.get(preset)
        if entry is None:
            return False
        target = self._entry(to, now)
        behind = target.clock(now) - entry.clock(now)
        heads = [e.head_since for e in (entry, target) if e.head_since is not None]
        target.head_since = min(heads, default=None)
        for waiter in self.drop(preset):
            waiter.preset, waiter.waits = to, True
            if waiter.expires is not None:
                waiter.expires += behind
            self._add(waiter, target)
        target.expiries.sort(target)
        target.alarm = None
        self.watch_expiry(target)
        return True

    def _forget(self, waiter: Waiter) -> None:
        if _RANK[waiter.kind]:
            return
        self.of_tenant[waiter.tenant] -= 1
        if not self.of_tenant[waiter.tenant]:
            del self.of_tenant[waiter.tenant]

    def _remove(self, entry: Entry) -> None:
        del self.entries[entry.preset]
        self.with_room.pop(entry.preset, None)
        entry.alarm = None
        self.touched[entry.preset] = None
        self.entry_gone = True

    # Room -----------------------------------------------------------------------

    def reserve(self, entry: Entry, *victims: InstanceId) -> None:
        """A2: the room of these is this entry's own until it starts, goes or needs none."""
        entry.room.update(dict.fromkeys(victims))
        self.with_room[entry.preset] = entry
        self.touched[entry.preset] = None

    def needs_no_room(self, entry: Entry) -> None:
        """It starts, or need not any more: what was made for it is its own no longer."""
        entry.room.clear()
        entry.evict_first = entry.await_room = False
        entry.site, entry.sites, entry.wakes = None, (), None
        entry.head_since = None
        if self.with_room.pop(entry.preset, None) is not None:
            self.touched[entry.preset] = None

    def give_up_room(self, entry: Entry, *victims: InstanceId) -> None:
        self.touched[entry.preset] = None
        for victim in victims:
            entry.room.pop(victim, None)
        if not entry.room:
            entry.await_room = False
            self.with_room.pop(entry.preset, None)

    # Time -----------------------------------------------------------------------

    def watch_expiry(self, entry: Entry) -> None:
        """Whenever its clock starts or stops, or its first waiter comes. While it runs, its next
        expiry only gets later, but by a waiter who is detached."""
        if entry.alarm is not None and entry.clock_runs_since is not None:
            return
        due = entry.next_expiry()
        if due is None:
            entry.alarm = None
        elif entry.alarm is None or due < entry.alarm:
            entry.alarm = due
            heapq.heappush(self._expiries, (due, next(self._numbers), entry))
            if len(self._expiries) > 2 * len(self.entries) + _SLACK:
                self._expiries = [item for item in self._expiries if item[2].alarm == item[0]]
                heapq.heapify(self._expiries)

    def next_expiry(self) -> float | None:
        """When the next of all the waiters has waited too long; None while no clock runs."""
        heap = self._expiries
        while heap:
            due, _, entry = heap[0]
            if entry.alarm == due:
                if entry.next_expiry() == due:
                    return due
                entry.alarm = None
                heapq.heappop(heap)
                self.watch_expiry(entry)
            else:
                heapq.heappop(heap)
        return None

    def expired(self, now: float) -> list[Waiter]:
        """Those who have waited too long leave."""
        gone: list[Waiter] = []
        while (due := self.next_expiry()) is not None and due <= now:
            waiter = self._expiries[0][2].expiries.next()
            assert waiter is not None, "an expiry is somebody's"
            self.leave(waiter.request)
            gone.append(waiter)
        return gone
