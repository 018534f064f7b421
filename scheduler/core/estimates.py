"""How long will it take? From what loads and answers have taken so far. Times in seconds.

An estimate walks the queue in its order, with a clock of its own: a load needs a loader and room,
room comes free in turn, and what is loaded keeps its room until its own waiters are served or its
time is up. It is a guess, and its error is measured (docs/scheduling.md).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from .books import Books
from .draining import Draining
from .instances import Instance
from .states import State
from .values import PresetName
from .wait_queue import Entry

_NEVER = float("inf")


class Estimates:
    def __init__(self, books: Books, draining: Draining) -> None:
        self._config = books.config
        self._presets = books.presets
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._learned = books.learned
        self._draining = draining

    # A new request, at the door -----------------------------------------------------

    def retry_after(self, preset: PresetName, now: float) -> float:
        """When it is worth asking again: at least a second. It looks at no more than one entry."""
        entry = self._queue.entries.get(preset)
        waiters = 0 if entry is None else len(entry)
        answers = waiters / self._slots(preset) * self._learned.answer(preset)
        current = self._fleet.current(preset)
        if current is not None and current.state is State.LOADED:
            seconds = answers
        elif current is not None and current.state is State.LOADING:
            seconds = self.load_left(current, now) + answers
        else:
            loaders = max(1, self._config.models_max_loading)
            others = len(self._order) * self._learned.any_load() / loaders
            seconds = others + self._learned.load(preset) + answers
        return min(max(1.0, seconds), max(1.0, self._config.queue_wait_seconds))

    # Those who wait -------------------------------------------------------------------

    def until_loaded(
        self, entries: Iterable[Entry], now: float, *, waits_for_room: bool
    ) -> list[float | None]:
        """For the first entries that wait for a load, in their order: when each is loaded.
        `waits_for_room`: the first of them does; with places left, bytes are what is short."""
        loaders = self._loaders_free(now)
        most, living = self._config.models_max, len(self._fleet.instances)
        if waits_for_room and not 0 < most <= living:
            rooms: list[float] | None = self._rooms_of_bytes(now)
        else:
            rooms = self._rooms_free(now) if most > 0 else None
        found: list[float | None] = []
        for entry in entries:
            current = self._fleet.current(entry.preset)
            wakes = current is not None and current.state is State.SLEEPING
            room = 0.0
            if not wakes and rooms is not None:
                room = heapq.heappop(rooms) if rooms else _NEVER
            if room == _NEVER:
                found.append(None)
                continue
            begins = max(room, heapq.heappop(loaders))
            loaded = begins + self._learned.load(entry.preset)
            heapq.heappush(loaders, loaded)
            if not wakes and rooms is not None:
                heapq.heappush(rooms, loaded + self._stays(entry))
            found.append(loaded)
        return found

    def until_slot(self, instance: Instance, position: int, now: float) -> float:
        """When the waiter at this position (1: the next) gets a slot of a loaded instance."""
        usual = self._learned.answer(instance.preset.name)
        frees = sorted(abs(usual - (now - lease.since)) for lease in instance.leases.values())
        if not frees:
            return 0.0
        rounds, place = divmod(position - 1, len(frees))
        return frees[place] + rounds * usual

    def after_load(self, preset: PresetName, position: int) -> float:
        """What it still waits for a slot, once its model is loaded."""
        return (position - 1) // self._slots(preset) * self._learned.answer(preset)

    def load_left(self, instance: Instance, now: float) -> float:
        """Of a load or a wake under way, as far as loads of its preset tell."""
        return max(0.0, self._learned.load(instance.preset.name) - (now - instance.load_began_at))

    def _slots(self, preset: PresetName) -> int:
        spec = self._presets.get(preset)
        parallel = 1 if spec is None else spec.parallel
        return max(1, int(parallel * self._config.oversubscribe))

    def _stays(self, entry: Entry) -> float:
        """How long it keeps its room while others wait: for its own waiters, at most the quantum
        and the answers that are under way then."""
        answer = self._learned.answer(entry.preset)
        rounds = -(-len(entry) // self._slots(entry.preset))
        longest = min(self._config.quantum_seconds, self._config.max_wait_seconds)
        return min(rounds * answer, longest + answer) + self._learned.exit()

    def _loaders_free(self, now: float) -> list[float]:
        loading = [
            self.load_left(instance, now)
            for instance in self._fleet
            if instance.state is State.LOADING
        ]
        loaders = max(1, self._config.models_max_loading)
        free = [0.0] * max(0, loaders - len(loading))
        return sorted(free + loading)[:loaders]

    def _rooms_free(self, now: float) -> list[float]:
        """A heap of when each place comes free, of which there are `models_max`."""
        exit = self._learned.exit()
        rooms = [0.0] * max(0, self._config.models_max - len(self._fleet.instances))
        rooms += [exit for instance in self._fleet if self._is_idle(instance)]
        rooms += self._rooms_of_busy(now)
        heapq.heapify(rooms)
        return rooms

    def _rooms_of_bytes(self, now: float) -> list[float]:
        """The same where bytes are short and places are not: there are as many as instances. The
        idle ones do not suffice, so they go with the first of the others, if there is one."""
        rooms = self._rooms_of_busy(now)
        first = min(rooms, default=self._learned.exit())
        rooms += [first for instance in self._fleet if self._is_idle(instance)]
        heapq.heapify(rooms)
        return rooms

    def _rooms_of_busy(self, now: float) -> list[float]:
        """Of those that answer, load or go already."""
        exit = self._learned.exit()
        rooms = []
        for instance in self._fleet:
            if instance.state is State.STOPPING:
                rooms.append(max(0.0, exit - (now - instance.left_at)))
            elif instance.preset.pinned or self._is_idle(instance):
                continue
            elif instance.state is State.LOADING:
                answer = self._learned.answer(instance.preset.name)
                rooms.append(self.load_left(instance, now) + answer + exit)
            else:
                rooms.append(self._busy_for(instance, now) + exit)
        return rooms

    def _is_idle(self, instance: Instance) -> bool:
        """And may go."""
        is_up = instance.state not in (State.STOPPING, State.LOADING)
        return is_up and not instance.preset.pinned and not instance.busy

    def _busy_for(self, instance: Instance, now: float) -> float:
        """Until it is drained for somebody, and its answers are over; with nobody of its own
        waiting it may be idle before."""
        answers = self._draining.free_in(instance, now)
        if instance.state is State.DRAINING or instance.preset.name not in self._queue.entries:
            return answers
        due = instance.loaded_at + self._config.quantum_seconds - now
        return max(0.0, min(due, self._config.max_wait_seconds)) + answers
