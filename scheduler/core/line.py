"""A line of waiters: those of one tenant for one preset."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from .values import Kind, PresetName, Priority, RequestId, TenantId

_SLACK = 64  # dead items that are not worth a clean-up

Place = tuple[int, float, int]
"""Rank of the kind, first arrival less the bonus of the priority, order of joining: smaller is
served earlier, but for what the tenant has lately used (shares.py)."""


@dataclass(slots=True, eq=False)
class Waiter:
    request: RequestId
    preset: PresetName
    kind: Kind
    tenant: TenantId
    weight: float
    priority: Priority
    arrived: float
    place: Place
    expires: float | None  # on its entry's clock; None never
    waits: bool = True  # else it has left, and what still refers to it is dropped when it surfaces
    sticky: str = ""
    detached: bool = False  # its client has lost its connection, and may come back (A9)
    turn: int = 0  # the `turn` of its entry as which it stands in the order's heap


class Line:
    """Waiters by place. Leaving from the middle is free: what is dead is dropped when it surfaces,
    or when the dead outnumber the living. `first` is who is served first.

    `served` are the seconds that those of the line have used over their weight, since it began or
    since another of its entry did that had none: it has no bound, so that in the long run nothing
    counts but this."""

    __slots__ = ("_by_place", "_living", "first", "served")

    def __init__(self) -> None:
        self._living: dict[RequestId, Waiter] = {}
        self._by_place: list[tuple[Place, Waiter]] = []
        self.first: Waiter | None = None
        self.served = 0.0

    def __len__(self) -> int:
        return len(self._living)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._living.values())

    def join(self, waiter: Waiter) -> None:
        self._living[waiter.request] = waiter
        heapq.heappush(self._by_place, (waiter.place, waiter))
        self.first = self._by_place[0][1]

    def leave(self, request: RequestId) -> None:
        """It waits no more."""
        self._living.pop(request, None)
        if len(self._by_place) > 2 * len(self._living) + _SLACK:
            self._by_place = [item for item in self._by_place if item[1].waits]
            heapq.heapify(self._by_place)
        by_place = self._by_place
        while by_place and not by_place[0][1].waits:
            heapq.heappop(by_place)
        self.first = by_place[0][1] if by_place else None

    def in_order(self) -> Iterator[Waiter]:
        """By place, and not sorted for it: the first few of many cost little."""
        heap = self._by_place
        nearest = [(heap[0][0], 0)] if heap else []
        while nearest:
            _, at = heapq.heappop(nearest)
            for below in range(2 * at + 1, min(2 * at + 3, len(heap))):
                heapq.heappush(nearest, (heap[below][0], below))
            if heap[at][1].waits:
                yield heap[at][1]
