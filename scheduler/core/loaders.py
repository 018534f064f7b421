"""Who uses a loader, and whose load may be ended for another one (A2, A3)."""

from __future__ import annotations

from collections.abc import Collection

from . import leaving
from .books import Books
from .decisions import Decision, Reason
from .eviction import Eviction, eviction_order
from .instances import Instance
from .states import State
from .wait_queue import Entry


class Loaders:
    def __init__(self, books: Books, eviction: Eviction) -> None:
        self._most = max(1, books.config.models_max_loading)
        self._fleet = books.fleet
        self._eviction = eviction

    @property
    def loading(self) -> Collection[Instance]:
        return self._fleet.by_state[State.LOADING].values()

    @property
    def all_in_use(self) -> bool:
        return len(self.loading) >= self._most

    @property
    def starting_up(self) -> bool:
        return any(instance.startup for instance in self.loading)

    def to_be_had(self, *, or_killed: bool = True) -> bool:
        """A loader is free, or would be with the unwanted loads killed (A3)."""
        to_be_killed = len(self._unwanted()) if or_killed else 0
        return self._counted() - to_be_killed < self._most

    def free_one(self, entry: Entry, now: float) -> list[Decision]:
        """A3: an unwanted load is killed when the head needs its loader."""
        decisions: list[Decision] = []
        while self._counted() >= self._most:
            unwanted = min(self._unwanted(), key=eviction_order)
            decisions.append(leaving.kill(unwanted, Reason.UNWANTED, now, entry.preset))
        return decisions

    def _counted(self) -> int:
        """Loads that the head waits for: not those beside a head that waited for room."""
        return sum(not instance.beside for instance in self.loading)

    def _unwanted(self) -> list[Instance]:
        unwanted = self._eviction.is_unwanted_load
        return [i for i in self.loading if unwanted(i) and not i.beside]
