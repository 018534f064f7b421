"""A5: is there room? The arithmetic of `models_max`, and of the bytes where devices are known.

A start is carried out in the step that decides it, so what the rule calls `claimed` (granted, not
yet spawned) is part of what runs. Room that was made for an entry which has not started yet is
that entry's own, whoever comes ahead meanwhile (A2).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .books import Books
from .instances import Instance
from .states import State
from .values import NO_NEED, Bytes, InstanceId, PresetName
from .wait_queue import Entry


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is missing, once everything that leaves has exited."""

    slot: bool
    bytes: Bytes = ()

    def __bool__(self) -> bool:
        return self.slot or bool(self.bytes)


ENOUGH = Shortage(slot=False)


class Room:
    def __init__(self, books: Books) -> None:
        self._models_max = books.config.models_max
        self._presets = books.presets
        self._fleet = books.fleet
        self._queue = books.queue
        self._ledger = books.ledger

    @property
    def limited(self) -> bool:
        """A `models_max` of 0 means no limit by count."""
        return self._models_max > 0

    @property
    def stopping(self) -> bool:
        """Is anything on its way out?"""
        return bool(self._fleet.by_state[State.STOPPING])

    def need(self, preset: PresetName) -> Bytes:
        spec = self._presets.get(preset)
        return NO_NEED if spec is None else spec.need

    def shortage(
        self, entry: Entry, *, staying: Collection[InstanceId] = (), beside: Entry | None = None
    ) -> Shortage:
        """A5: what more has to go for it, beside what is leaving already. `staying` are drains
        that shall count as if they were undone, `beside` is one that shall have started first."""
        leaving = [i for i in self._leaving() if i.id not in staying]
        others = [o for o in self._queue.with_room.values() if o is not entry and o is not beside]
        if beside is not None:
            others.append(beside)
        slot = False
        if self.limited:
            coming = self._models_max - len(self._fleet.instances) + len(leaving)
            slot = coming - len(others) < 1
        if not self._ledger.limits:
            return Shortage(slot) if slot else ENOUGH
        deficit = self._ledger.deficit(
            self.need(entry.preset),
            leaving=[instance.preset.need for instance in leaving],
            promised=[self.need(other.preset) for other in others],
        )
        return Shortage(slot, deficit)

    def free_now(self, entry: Entry) -> bool:
        """A5: may it start in this step? What others' victims have left free is theirs."""
        if self.limited and self._models_max <= len(self._fleet.instances):
            return False
        others = [other for other in self._queue.with_room.values() if other is not entry]
        if self.limited:
            theirs = sum(self.is_ready(other) for other in others)
            if self._models_max - len(self._fleet.instances) - theirs < 1:
                return False
        if self.shortage(entry):
            return False
        if not self._ledger.limits:
            return True
        promised = [self.need(other.preset) for other in others if self.is_ready(other)]
        need = self.need(entry.preset)
        return not self._ledger.deficit(need, leaving=(), promised=promised)

    def fits_beside(self, head: Entry, entry: Entry) -> bool:
        """A2: it may start now, and the head's room stays covered, what is leaving included."""
        return self.free_now(entry) and not self.shortage(head, beside=entry)

    def is_ready(self, entry: Entry) -> bool:
        """All that went for it has exited."""
        return bool(entry.room) and not any(i in self._fleet.instances for i in entry.room)

    def never(self, preset: PresetName) -> Bytes:
        """L6: by how much it is too big for the machine with nothing else on it."""
        return self._ledger.never_fits(self.need(preset))

    def taken_by_pins(self, preset: PresetName) -> tuple[PresetName, ...]:
        """A6: the presets whose pinned instances leave no room even with everything unpinned gone;
        empty when pins alone do not make a start impossible. Never names the preset that wants to
        start: it has only leaving instances, if any."""
        if not self._fleet.pinned:
            return ()
        pinned = [i for i in self._fleet.pinned.values() if not i.leaving]
        blocked = self.limited and len(pinned) >= self._models_max
        if not blocked and pinned and self._ledger.limits:
            rest = [i.preset.need for i in self._fleet if i.leaving or not i.preset.pinned]
            blocked = bool(self._ledger.deficit(self.need(preset), leaving=rest, promised=()))
        return tuple(sorted(i.preset.name for i in pinned)) if blocked else ()

    def _leaving(self) -> list[Instance]:
        """A5: asked to exit, or draining for an entry, whatever else it drains for by now."""
        shelves = self._fleet.by_state
        leaving = list(shelves[State.STOPPING].values())
        if shelves[State.DRAINING]:
            leaving += [i for i in shelves[State.DRAINING].values() if i.for_preset is not None]
        return leaving
