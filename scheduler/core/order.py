"""Whose turn it is: the order of the entries that wait for a load (A1), and of the waiters in one
(A8). The only place that knows fairness.

A waiter's virtual start is its arrival, less the bonus of its priority, plus what its tenant's
recent use sets it back; an entry's is that of its best waiter. The set-back changes with time, so
the order is kept per tenant, where it does not matter, and the tenants' firsts are compared when
somebody asks: that costs a comparison per tenant, and a logarithm of the entries.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

from .line import Place, Waiter
from .shares import Shares
from .values import Config, PresetName, TenantId
from .wait_queue import Entry

_SLACK = 64  # dead items that are not worth a clean-up
_BEFORE_ALL = 1e12  # more than any clock says
_LOADS = None  # the line of those without a request behind them

_Heap = list[tuple[Place, int, Waiter]]
"""The waiters that are or were first of their line, each with the turn of its entry in which it
was."""


class Order:
    def __init__(self, shares: Shares, config: Config) -> None:
        self._shares = shares
        self._jump = config.max_priority_jump_seconds
        self._overdue = self._jump + config.queue_wait_seconds / 2
        self._pending: dict[PresetName, Entry] = {}
        self._heaps: dict[TenantId | None, _Heap] = {}
        self._turns = count(1)

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, preset: PresetName) -> bool:
        return preset in self._pending

    def __iter__(self) -> Iterator[Entry]:
        """The entries that wait for a load, in no order."""
        return iter(self._pending.values())

    # Which entries wait for a load ------------------------------------------------

    def put(self, entry: Entry) -> None:
        """It waits for a start or a wake, or one of its lines has a new first."""
        if entry.preset not in self._pending:
            self._pending[entry.preset] = entry
            entry.turn = next(self._turns)
        for tenant, line in entry.lines.items():
            if line.first is not None and line.first.turn != entry.turn:
                self._push(tenant, line.first, entry)
        if entry.loads.first is not None and entry.loads.first.turn != entry.turn:
            self._push(_LOADS, entry.loads.first, entry)

    def drop(self, preset: PresetName) -> None:
        if self._pending.pop(preset, None) is not None and not self._pending:
            self._heaps.clear()

    def _push(self, tenant: TenantId | None, first: Waiter, entry: Entry) -> None:
        first.turn = entry.turn
        heap = self._heaps.setdefault(tenant, [])
        heapq.heappush(heap, (first.place, entry.turn, first))
        if len(heap) > 2 * len(self._pending) + _SLACK:
            self._clean(tenant, heap)

    def _clean(self, tenant: TenantId | None, heap: _Heap) -> None:
        """Only the firsts that are there, once each."""
        heap.clear()
        for entry in self._pending.values():
            line = entry.loads if tenant is _LOADS else entry.lines.get(tenant)
            if line is not None and line.first is not None:
                for waiter in line:
                    waiter.turn = 0
                line.first.turn = entry.turn
                heap.append((line.first.place, entry.turn, line.first))
        heapq.heapify(heap)

    # Who is first -------------------------------------------------------------------

    def head(self, now: float) -> Entry | None:
        first = self.first(now)
        return None if first is None else first[0]

    def first(self, now: float) -> tuple[Entry, Place] | None:
        """The head, and its key."""
        best: Place | None = None
        head: Entry | None = None
        dry: list[TenantId | None] = []
        pending, penalty = self._pending, self._shares.penalties(now)
        for tenant, heap in self._heaps.items():
            while heap:
                place, turn, waiter = heap[0]
                if waiter.waits:
                    if best is not None and place > best:
                        break  # what sets it back only makes it later
                    entry = pending.get(waiter.preset)
                    if entry is not None and entry.turn == turn:
                        if tenant is not _LOADS:
                            rank, start, number = place
                            place = rank, start + penalty(tenant), number
                        if best is None or place < best:
                            best, head = place, entry
                        break
                heapq.heappop(heap)  # it has gone
            else:
                dry.append(tenant)
        for tenant in dry:
            del self._heaps[tenant]
        return None if head is None or best is None else (head, best)

    def first_few(self, most: int, now: float) -> list[Entry]:
        """The first entries in their order."""
        found: list[Entry] = []
        while len(found) < most and (entry := self.head(now)) is not None:
            found.append(entry)
            del self._pending[entry.preset]
        for entry in found:
            self.put(entry)  # anew: what the heaps knew of them may have been dropped
        return found

    # Inside an entry ------------------------------------------------------------------

    def key(self, entry: Entry, now: float) -> Place:
        """Where it stands among the entries: that of its best waiter."""
        best, _ = self._best(entry, now)
        if best is None:
            load = entry.loads.first
            assert load is not None, "an entry is gone with its last waiter"
            best = load.place
        return best

    def next_request(self, entry: Entry, now: float) -> Waiter | None:
        """A8: who gets the next free slot: whose tenant has been served least, for its weight."""
        lines = entry.lines
        if len(lines) == 1:
            for line in lines.values():
                return line.first
        best = float("inf")
        chosen: Waiter | None = None
        level = self._shares.levels(now)
        for tenant, line in lines.items():
            first = line.first
            if first is not None:
                turn = self._turn(first, level(tenant) + line.served, now)
                if turn < best or (turn == best and chosen and first.place < chosen.place):
                    best, chosen = turn, first
        return chosen

    def _turn(self, waiter: Waiter, level: float, now: float) -> float:
        """Inside an entry, what a tenant has had counts without a bound, and for how long somebody
        has waited, his bonus included, up to the jump: so a thousand of one tenant do not push back
        the only one of another, and every priority ends. Who has waited for half of what a waiter
        may wait at all comes before the others, the oldest first, whatever his weight. `level` is
        his tenant's, with those of it who will be served before him."""
        start = waiter.place[1]
        waited = now - start
        if waited > self._overdue:
            return start - _BEFORE_ALL
        return level - (waited if waited < self._jump else self._jump)

    def _best(self, entry: Entry, now: float) -> tuple[Place | None, Waiter | None]:
        best: Place | None = None
        chosen: Waiter | None = None
        penalty = self._shares.penalties(now)
        for tenant, line in entry.lines.items():
            first = line.first
            if first is None or (best is not None and first.place > best):
                continue  # what sets a tenant back only makes it later
            rank, start, number = first.place
            place = rank, start + penalty(tenant), number
            if best is None or place < best:
                best, chosen = place, first
        return best, chosen

    def is_before(self, entry: Entry, key: Place, now: float) -> bool:
        """Does it stand before who has this key? Cheap where it clearly does not."""
        for line in entry.lines.values():
            first = line.first
            if first is not None and first.place <= key:
                return self.key(entry, now) <= key
        return not entry.lines and self.key(entry, now) <= key

    def in_order(self, entry: Entry, now: float) -> Iterator[Waiter]:
        """Its waiters, the next first, if nothing else comes. The first few of many cost little."""
        lines = [self._turns_of(tenant, entry, now) for tenant in entry.lines]
        for _, _, waiter in heapq.merge(*lines, key=lambda turn: turn[:2]):
            yield waiter
        yield from entry.loads.in_order()

    def _turns_of(
        self, tenant: TenantId, entry: Entry, now: float
    ) -> Iterator[tuple[float, Place, Waiter]]:
        line = entry.lines[tenant]
        for before, waiter in enumerate(line.in_order()):
            level = self._shares.level(tenant, now, answers=before, preset=waiter.preset)
            level += line.served + self._shares.use_of(waiter.preset, before) / waiter.weight
            yield self._turn(waiter, level, now), waiter.place, waiter
