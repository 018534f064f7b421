"""Who may load now (A2), what goes for it (A3, A5), and start-up loads (A10).

There are two kinds of entry. One without a usable (loaded) instance waits for a start or a wake;
the first of these with neither under way is the head, and only the head may load or evict. One
whose instance is loaded but saturated waits for a lease: it needs no slot and never blocks.

A drain for an entry, and its passing on (A3), come with the drains of A6: here a victim is idle, or
works for nobody, so it is asked to exit at once, and that cannot be undone. Its slot passes on by
itself when its entry has gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from . import leaving
from .decisions import Decision, Reason, Reject, Start, Wake
from .eviction import choose_victim, eviction_order, is_unwanted_load
from .failures import Failures
from .instances import Fleet, Instance
from .slots import Slots
from .states import Cue, State
from .values import Code, Config, PresetName, PresetSpec, Refusal
from .wait_queue import Entry, WaitQueue


class Need(Enum):
    START = auto()
    WAKE = auto()
    NOTHING = auto()  # loading, or loaded and saturated


class Outcome(Enum):
    """What became of the head in this step."""

    MOVED_ON = auto()  # started, woken or refused: the next entry is head
    WAITS_FOR_LOADER = auto()
    WAITS_FOR_ROOM = auto()


Step = tuple[Outcome, list[Decision]]


class Admission:
    def __init__(
        self,
        config: Config,
        presets: Mapping[PresetName, PresetSpec],
        fleet: Fleet,
        queue: WaitQueue,
        failures: Failures,
    ) -> None:
        self._presets = presets
        self._failures = failures
        self._loaders = max(1, config.models_max_loading)
        self._fleet = fleet
        self._queue = queue
        self._slots = Slots(config.models_max, fleet, queue)

    def admit(self, now: float) -> list[Decision]:
        """Derive the head anew and serve it, until one has to wait."""
        decisions: list[Decision] = []
        pending = self._pending()
        for position, entry in enumerate(pending):
            outcome, step = self._serve_head(entry, now)
            decisions += step
            if outcome is Outcome.WAITS_FOR_ROOM:
                decisions += self._load_beside(entry, pending[position + 1 :], now)
            if outcome is not Outcome.MOVED_ON:
                break
        return decisions

    def need(self, entry: Entry) -> Need:
        current = self._fleet.current(entry.preset)
        if current is None:
            return Need.START
        return Need.WAKE if current.state is State.SLEEPING else Need.NOTHING

    def _pending(self) -> list[Entry]:
        """A2: the entries that wait for a start or a wake; the first is the head."""
        for entry in self._queue.entries.values():
            if self.need(entry) is not Need.START:
                entry.needs_no_room()
        return [entry for entry in self._queue.in_order() if self.need(entry) is not Need.NOTHING]

    # The head -----------------------------------------------------------------

    def _serve_head(self, entry: Entry, now: float) -> Step:
        if self.need(entry) is Need.WAKE:
            return self._wake_head(entry, now)
        if entry.startup_only:
            return self._start_up(entry, now)
        if pins := self._slots.taken_by_pins():
            return Outcome.MOVED_ON, self._refuse_blocked_by_pins(entry, pins)
        if (exit := self._failures.broken(entry.preset)) and not self._slots.covered(entry):
            return Outcome.MOVED_ON, self._refuse(entry, Refusal(Code.MODEL_BROKEN, exit=exit))
        if not self._loader_is_to_be_had():
            return Outcome.WAITS_FOR_LOADER, []
        decisions = self._make_room(entry, now)
        if self._waits_for_room(entry):
            return Outcome.WAITS_FOR_ROOM, decisions
        decisions += self._free_a_loader(entry)
        decisions.append(self._start(entry, now, beside=False))
        return Outcome.MOVED_ON, decisions

    def _wake_head(self, entry: Entry, now: float) -> Step:
        """A2: a wake needs no slot, but a loader. A10: a start-up load kills none for it."""
        if not self._loader_is_to_be_had(or_killed=not entry.startup_only):
            return Outcome.WAITS_FOR_LOADER, []
        return Outcome.MOVED_ON, [
            *self._free_a_loader(entry),
            self._wake(entry, now, beside=False),
        ]

    def _start_up(self, entry: Entry, now: float) -> Step:
        """A10: one by one, evicting nobody; what does not fit is skipped, but only once nothing is
        stopping."""
        if not self._loader_is_to_be_had(or_killed=False) or self._starts_up_already():
            return Outcome.WAITS_FOR_LOADER, []
        if not self._waits_for_room(entry):
            return Outcome.MOVED_ON, [self._start(entry, now, beside=False)]
        if self._slots.stopping:
            return Outcome.WAITS_FOR_ROOM, []
        return Outcome.MOVED_ON, self._refuse(entry, Refusal(Code.DOES_NOT_FIT))

    def _starts_up_already(self) -> bool:
        return any(i.startup and i.state is State.LOADING for i in self._fleet)

    def _refuse_blocked_by_pins(self, entry: Entry, pins: tuple[PresetName, ...]) -> list[Decision]:
        return self._refuse(entry, Refusal(Code.BLOCKED_BY_PINNED, blocked_by=pins))

    def _refuse(self, entry: Entry, refusal: Refusal) -> list[Decision]:
        return [Reject(waiter.request, refusal) for waiter in self._queue.drop(entry.preset)]

    # Room ---------------------------------------------------------------------

    def _make_room(self, entry: Entry, now: float) -> list[Decision]:
        """A5: one victim when no slot is free or coming. A4: one more before a load that ran out of
        memory is tried again; but nobody goes for one that failed by itself before."""
        owed = entry.evict_first and self._failures.broken(entry.preset) is None
        if owed and (victim := self._evict_for(entry, now, await_room=True)):
            entry.evict_first = False
            return victim
        return [] if self._slots.covered(entry) else self._evict_for(entry, now, await_room=False)

    def _evict_for(self, entry: Entry, now: float, *, await_room: bool) -> list[Decision]:
        victim = choose_victim(self._fleet, entry, self._queue)
        if victim is None:
            return []
        entry.room = victim.id
        entry.await_room = await_room
        unwanted = victim.state is State.LOADING
        reason = Reason.UNWANTED if unwanted else Reason.EVICTED
        return [leaving.ask_exit(victim, reason, now, entry.preset)]

    def _waits_for_room(self, entry: Entry) -> bool:
        if entry.await_room and not self._slots.room_is_ready(entry):
            return True
        return not self._slots.free_now(entry)

    # Loaders ------------------------------------------------------------------

    def _loads_counted(self) -> int:
        """Loads that the head waits for: not those beside a head that waited for room."""
        return sum(i.state is State.LOADING and not i.beside for i in self._fleet)

    def _unwanted_loads(self) -> list[Instance]:
        return [i for i in self._fleet if is_unwanted_load(i, self._queue) and not i.beside]

    def _loader_is_to_be_had(self, *, or_killed: bool = True) -> bool:
        """A loader is free, or would be with the unwanted loads killed (A3)."""
        to_be_killed = len(self._unwanted_loads()) if or_killed else 0
        return self._loads_counted() - to_be_killed < self._loaders

    def _free_a_loader(self, entry: Entry) -> list[Decision]:
        """A3: an unwanted load is killed when the head needs its loader."""
        decisions: list[Decision] = []
        while self._loads_counted() >= self._loaders:
            unwanted = min(self._unwanted_loads(), key=eviction_order)
            decisions.append(leaving.kill(unwanted, Reason.UNWANTED, entry.preset))
        return decisions

    # Beside a head that only waits for room -------------------------------------

    def _load_beside(self, head: Entry, later: list[Entry], now: float) -> list[Decision]:
        """A2: a later entry may load when that evicts nobody and leaves the head's slot covered."""
        decisions: list[Decision] = []
        for entry in later:
            if sum(i.state is State.LOADING for i in self._fleet) >= self._loaders:
                break
            if self._may_wake_beside(head, entry):
                decisions.append(self._wake(entry, now, beside=True))
            elif self._may_start_beside(entry):
                decisions.append(self._start(entry, now, beside=True))
        return decisions

    def _may_wake_beside(self, head: Entry, entry: Entry) -> bool:
        """A wake takes no slot; but awake and in use, its instance is no victim for the head, and
        takes memory, which a head that ran out of it (A4) has just been promised."""
        if head.await_room:
            return False
        sleeper = self._fleet.current(entry.preset)
        if sleeper is None or sleeper.state is not State.SLEEPING:
            return False
        return self._slots.covered(head) or sleeper.preset.pinned

    def _may_start_beside(self, entry: Entry) -> bool:
        """Only with the room that was made for it when it was head itself."""
        return (
            self.need(entry) is Need.START
            and self._slots.room_is_ready(entry)
            and self._slots.free_now(entry)
        )

    # The only places where a load begins ----------------------------------------

    def _start(self, entry: Entry, now: float, *, beside: bool) -> Start:
        entry.needs_no_room()
        startup = entry.startup_only
        spec = self._presets[entry.preset]
        instance = self._fleet.add(spec, now, startup=startup, beside=beside)
        return Start(instance.id, spec, Reason.STARTUP if startup else Reason.REQUESTED)

    def _wake(self, entry: Entry, now: float, *, beside: bool) -> Wake:
        instance = self._fleet.current(entry.preset)
        assert instance is not None
        instance.advance(Cue.WAKE)
        instance.load_begins(now)
        instance.beside = beside
        return Wake(instance.id)
