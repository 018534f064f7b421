"""Loads beside others: a small one while the head waits for room (A2), a further replica of what is
saturated, and the new version of an edited preset beside the old one."""

from __future__ import annotations

from functools import partial

from .books import Books
from .decisions import Decision
from .instances import Instance
from .loaders import Loaders
from .making_room import MakingRoom
from .room import Room
from .siting import Siting
from .starting import Need, Starting
from .states import State
from .values import PresetName
from .wait_queue import Entry, Site

LOOKED_AT = 16
"""How many entries behind a waiting head are tried whether they fit beside it."""


class Beside:
    def __init__(
        self,
        books: Books,
        room: Room,
        siting: Siting,
        loaders: Loaders,
        making_room: MakingRoom,
        starting: Starting,
    ) -> None:
        self._presets = books.presets
        self._books = books
        self._failures = books.failures
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._ledger = books.ledger
        self._room = room
        self._siting = siting
        self._loaders = loaders
        self._making_room = making_room
        self._starting = starting
        self._unmeasured: dict[PresetName, float] = {}
        """Successors of what was edited that are being measured, and since when they are due."""

    def might_load(self) -> bool:
        """Whether a small one could start beside a waiting head at all: it is bytes that the head
        waits for, and there is a loader and a slot."""
        return self._ledger.limits and not self._loaders.all_in_use and self._room.has_a_slot

    # Beside a head that only waits for room -------------------------------------

    def load(self, head: Entry, now: float) -> list[Decision]:
        """A2: a later entry may load when that evicts nobody and leaves the head's room covered."""
        decisions: list[Decision] = []
        for entry in self._beside(head, now):
            if self._loaders.all_in_use:
                break
            sleeper = self._fleet.current(entry.preset)
            if sleeper is not None and self._may_wake_beside(head, entry, sleeper):
                decisions.append(self._starting.wake(entry, sleeper, now, beside=True))
            elif self._may_start_beside(head, entry, now):
                decisions.append(self._starting.start(entry, now, beside=True))
        return decisions

    def _beside(self, head: Entry, now: float) -> list[Entry]:
        """Who could: those with room of their own and those that sleep; and where it is bytes that
        the head waits for, the next few, which may be small enough."""
        names = [preset for preset in self._queue.with_room if preset in self._order]
        names += [i.preset.name for i in self._fleet.by_state[State.SLEEPING].values()]
        entries = {
            name: entry
            for name in names
            if (entry := self._queue.entries.get(name)) is not None and entry is not head
        }
        found = sorted(entries.values(), key=lambda entry: self._order.key(entry, now))
        if self.might_load():
            few = self._order.first_few(LOOKED_AT, now)
            found += [e for e in few if e is not head and e.preset not in entries]
        return found

    def _may_wake_beside(self, head: Entry, entry: Entry, sleeper: Instance) -> bool:
        """A wake takes no slot; but awake and in use, its instance is no victim for the head, and
        takes memory, which a head that ran out of it (A4) has just been promised."""
        if head.await_room or sleeper.state is not State.SLEEPING:
            return False
        entry.wakes, entry.site = sleeper, Site(sleeper.grant.placement, sleeper.takes)
        if not self._room.free_now(entry) or self._room.are_rivals(head, entry):
            return False
        return not self._room.shortage(head, beside=entry) or sleeper.preset.pinned

    def _may_start_beside(self, head: Entry, entry: Entry, now: float) -> bool:
        """With the room that was made for it when it was head itself; or where bytes are short for
        the head, and it is small and there is a slot more than the head's."""
        if entry.startup_only or self._starting.need(entry) is not Need.START:
            return False
        if self._siting.figures_due(entry) > now:
            return False
        if self._siting.settle(entry, self._presets[entry.preset]):
            return False
        if self._room.is_ready(entry):
            return self._room.free_now(entry)
        return (
            self._ledger.limits
            and not head.await_room
            and not self._failures.broken(entry.preset)
            and self._making_room.is_free_somewhere(entry, partial(self._room.fits_beside, head))
        )

    # Where nobody waits for a load ------------------------------------------------

    def might_grow(self, preset: PresetName) -> bool:
        """Whether another waiter for a loaded one may lead to a load."""
        return bool(self._books.growing) and self._presets[preset].replicas > 1

    def grow(self, now: float) -> list[Decision]:
        """A2: a further replica where all slots are taken, and the successor of what was edited; as
        long as that evicts nobody."""
        decisions: list[Decision] = []
        if self._books.shutting_down:
            return decisions
        for preset in [*self._saturated(), *self._edited(now)]:
            if self._loaders.all_in_use or not self._room.has_a_slot:
                break
            entry = self._queue.entries.get(preset) or Entry(preset, now)
            if self._fits_now(entry, now):
                decisions.append(self._starting.start(entry, now, beside=False))
        return decisions

    def unmeasured(self) -> dict[PresetName, float]:
        """Successors that wait for their measurement, and since when."""
        if not self._unmeasured:
            return {}
        return {name: since for name, since in self._unmeasured.items() if name in self._presets}

    def _saturated(self) -> list[PresetName]:
        return [
            preset
            for preset in self._books.growing
            if preset in self._queue.entries
            and not self._loads(preset)
            and sum(not i.leaving for i in self._fleet.of(preset)) < self._presets[preset].replicas
        ]

    def _edited(self, now: float) -> list[PresetName]:
        """Old versions that still answer, without a new one. Only where memory is counted: else
        nobody knows whether both have room. One that is being measured is waited for as if somebody
        had asked for it at the edit."""
        if not self._ledger.limits:
            self._unmeasured = {}
            return []
        stale = (i.preset.name for i in self._fleet.stale.values() if i.busy and not i.leaving)
        due = [
            name
            for name in dict.fromkeys(stale)
            if name in self._presets
            and all(other.stale or other.leaving for other in self._fleet.of(name))
        ]
        before, presets = self._unmeasured, self._presets
        self._unmeasured = {name: before.get(name, now) for name in due if presets[name].measuring}
        return [name for name in due if presets[name].shape is not None]

    def _loads(self, preset: PresetName) -> bool:
        return any(instance.state is State.LOADING for instance in self._fleet.of(preset))

    def _fits_now(self, entry: Entry, now: float) -> bool:
        return (
            self._failures.backing_off(entry.preset, now) is None
            and not self._failures.broken(entry.preset)
            and self._siting.figures_due(entry, self._unmeasured.get(entry.preset)) <= now
            and not self._siting.settle(entry, self._presets[entry.preset])
            and self._making_room.is_free_somewhere(entry, self._room.free_now)
        )
