"""A5: is there room? The arithmetic of `models_max`, and of the bytes where devices are known.

A start is carried out in the step that decides it, so what the rule calls `claimed` (granted, not
yet spawned) is part of what runs. Room that was made for an entry which has not started yet is
that entry's own, whoever comes ahead meanwhile (A2). Which place of an entry is meant stands in
its `site` (siting.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from .books import Books
from .decisions import Figures, Reason
from .instances import Instance
from .ledger import NOBODY
from .sharing import kept_apart
from .sizes import NO_NEED, Bytes, Need
from .states import State
from .values import Code, InstanceId, PresetName, PresetSpec, Refusal
from .wait_queue import Entry, Site


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is missing, once everything that leaves has exited. `rivals` have to go in any case: a
    group keeps them apart from who waits."""

    slot: bool
    bytes: Bytes = ()
    rivals: tuple[InstanceId, ...] = ()

    def __bool__(self) -> bool:
        return self.slot or bool(self.bytes) or bool(self.rivals)


ENOUGH = Shortage(slot=False)


def need_of(entry: Entry) -> Need:
    return NO_NEED if entry.site is None else entry.site.need


def bytes_told(name: str, sizes: Iterable[tuple[str, int]]) -> Figures:
    return tuple((f"{name}_{where}", size) for where, size in sizes)


def _sleeper(entry: Entry) -> set[InstanceId]:
    """L8: what it keeps asleep is part of what it takes awake."""
    return set() if entry.sleeper is None else {entry.sleeper.id}


def _starts(entries: list[Entry]) -> int:
    """How many of them need a slot: a wake needs none."""
    return sum(entry.sleeper is None for entry in entries)


def _makes_room(drain: Instance) -> bool:
    return drain.for_preset is not None or drain.reason is Reason.OVER_LIMIT


class Room:
    def __init__(self, books: Books) -> None:
        self._books = books
        self._models_max = books.config.models_max
        self._limited = self._models_max > 0  # 0 means no limit by count
        self._fleet = books.fleet
        self._queue = books.queue
        self._ledger = books.ledger

    @property
    def has_a_slot(self) -> bool:
        return not self._limited or len(self._fleet.instances) < self._models_max

    @property
    def stopping(self) -> bool:
        """Is anything on its way out, or not yet back from one that was?"""
        returning = any(device.returning for device in self._ledger.devices.values())
        return returning or bool(self._fleet.by_state[State.STOPPING])

    def told(self, need: Need) -> Figures:
        """For the record: what is needed of each device, and what can be had there now."""
        free, _ = self._ledger.free()
        there = [(device, free[device]) for device, _ in need.own if device in free]
        return (*bytes_told("needs", need.own), *bytes_told("available", there))

    def shortage(
        self,
        entry: Entry,
        *,
        site: Site | None = None,
        staying: Collection[InstanceId] = (),
        beside: Entry | None = None,
    ) -> Shortage:
        """A5: what more has to go for it, beside what is leaving already. `staying` are drains
        that shall count as if they were undone, `beside` is one that shall have started first."""
        leaving = self.leaving()
        if staying:
            leaving = [i for i in leaving if i.id not in staying]
        others = self._others(entry, beside)
        slot = False
        if self._limited and entry.sleeper is None:
            coming = self._models_max - len(self._fleet.instances) + len(leaving)
            slot = coming - _starts(others) < 1
        rivals = self._staying_rivals(entry, leaving)
        if not self._ledger.limits:
            return Shortage(slot, rivals=rivals) if slot or rivals else ENOUGH
        need = need_of(entry) if site is None else site.need
        gone = {instance.id for instance in leaving} | _sleeper(entry)
        promised = [need_of(other) for other in others]
        deficit = self._ledger.deficit(need, gone, promised, returned=True)
        return Shortage(slot, deficit, rivals)

    def free_now(self, entry: Entry) -> bool:
        """A5: may it start in this step? What others' victims have left free is theirs; but what of
        that is on its way back need not lie free for them meanwhile."""
        ready = [other for other in self._others(entry, None) if self.is_ready(other)]
        slots = self._models_max - len(self._fleet.instances)
        if self._limited and entry.sleeper is None and slots - _starts(ready) < 1:
            return False
        if self.shortage(entry) or self.rivals(self._books.presets[entry.preset]):
            return False
        if not self._ledger.limits:
            return True
        theirs = [need_of(other) for other in ready]
        return not self._ledger.deficit(need_of(entry), _sleeper(entry), by_return=theirs)

    def fits_beside(self, head: Entry, entry: Entry) -> bool:
        """A2: it may start now, and the head's room stays covered, what is leaving included."""
        return (
            self.free_now(entry)
            and not self.are_rivals(head, entry)
            and not self.shortage(head, beside=entry)
        )

    # Groups -----------------------------------------------------------------------

    def rivals(self, spec: PresetSpec) -> list[Instance]:
        """Those that a group keeps apart from it, leaving ones among them. What sleeps is in
        nobody's way: it wakes through the queue."""
        if not self._books.kept_apart:
            return []
        return [
            instance
            for instance in self._fleet
            if instance.state is not State.SLEEPING
            and instance.preset.name != spec.name
            and kept_apart(spec.sharing, instance.preset.sharing)
        ]

    def are_rivals(self, one: Entry, other: Entry) -> bool:
        presets = self._books.presets
        return kept_apart(presets[one.preset].sharing, presets[other.preset].sharing)

    def _staying_rivals(self, entry: Entry, leaving: list[Instance]) -> tuple[InstanceId, ...]:
        if not self._books.kept_apart:
            return ()
        going = {instance.id for instance in leaving}
        rivals = self.rivals(self._books.presets[entry.preset])
        return tuple(rival.id for rival in rivals if rival.id not in going)

    # ---------------------------------------------------------------------------------

    def is_ready(self, entry: Entry) -> bool:
        """All that went for it has exited."""
        return bool(entry.room) and not any(i in self._fleet.instances for i in entry.room)

    def promised(self, entry: Entry) -> list[Need]:
        """What is kept for others than this entry."""
        return [need_of(other) for other in self._others(entry, None)]

    def refused_for_pins(
        self, spec: PresetSpec, *, wakes: bool = False, gone: Collection[InstanceId] = NOBODY
    ) -> Refusal | None:
        """A6: when a group keeps pinned instances apart from it, or they leave it no slot even with
        everything unpinned gone, and `gone`. What pins leave of memory is siting's to say."""
        if not self._fleet.pinned:
            return None
        pinned = {
            i.id: i for i in self._fleet.pinned.values() if not i.leaving and i.id not in gone
        }
        if rivals := [i for i in self.rivals(spec) if i.id in pinned]:
            return Refusal(Code.BLOCKED_BY_PINNED, blocked_by=_presets_of(rivals), apart=True)
        if self._limited and not wakes and len(pinned) >= self._models_max:
            return Refusal(Code.BLOCKED_BY_PINNED, blocked_by=_presets_of(pinned.values()))
        return None

    def leaving(self) -> list[Instance]:
        """A5: asked to exit, or draining for an entry, whatever else it drains for by now; or
        because of a device's limit."""
        shelves = self._fleet.by_state
        leaving = list(shelves[State.STOPPING].values())
        if shelves[State.DRAINING]:
            leaving += [i for i in shelves[State.DRAINING].values() if _makes_room(i)]
        return leaving

    def _others(self, entry: Entry, beside: Entry | None) -> list[Entry]:
        others = [o for o in self._queue.with_room.values() if o is not entry and o is not beside]
        if beside is not None:
            others.append(beside)
        return others


def _presets_of(instances: Iterable[Instance]) -> tuple[PresetName, ...]:
    return tuple(sorted({instance.preset.name for instance in instances}))
