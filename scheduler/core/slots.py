"""A5: the arithmetic of `models_max`.

A start is carried out in the step that decides it, so what the rule calls `claimed` (granted, not
yet spawned) is part of `running` here. A reserved slot is one that was made for an entry which has
not started yet: it is that entry's own, whoever comes ahead meanwhile (A2).
"""

from __future__ import annotations

from .instances import Fleet
from .states import State
from .values import PresetName
from .wait_queue import Entry, WaitQueue


class Slots:
    def __init__(self, models_max: int, fleet: Fleet, queue: WaitQueue) -> None:
        self._models_max = models_max
        self._fleet = fleet
        self._queue = queue

    @property
    def limited(self) -> bool:
        """A `models_max` of 0 means no limit by count."""
        return self._models_max > 0

    @property
    def stopping(self) -> int:
        return sum(instance.state is State.STOPPING for instance in self._fleet)

    def covered(self, entry: Entry) -> bool:
        """A5: is there a slot for it once everything that is stopping has exited? Then no (other)
        victim is needed."""
        if not self.limited or entry.room is not None:
            return True
        reserved = sum(other.room is not None for other in self._queue.entries.values())
        running = len(self._fleet.instances)
        return self._models_max - running + self.stopping - reserved >= 1

    def free_now(self, entry: Entry) -> bool:
        """A5: may it start in this step? What others' victims have left free is theirs."""
        if not self.limited:
            return True
        theirs = sum(
            self.room_is_ready(other)
            for other in self._queue.entries.values()
            if other is not entry
        )
        free = self._models_max - len(self._fleet.instances) - theirs
        return free >= 1 and self.covered(entry)

    def room_is_ready(self, entry: Entry) -> bool:
        """Its own victim has exited."""
        return entry.room is not None and entry.room not in self._fleet.instances

    def taken_by_pins(self) -> tuple[PresetName, ...]:
        """A6: the presets whose pinned instances leave no slot even with everything unpinned gone;
        empty when pins alone do not make a start impossible. Never names the preset that wants to
        start: it has only leaving instances, if any."""
        pinned = [i.preset.name for i in self._fleet if i.preset.pinned and not i.leaving]
        blocked = self.limited and len(pinned) >= self._models_max
        return tuple(sorted(pinned)) if blocked else ()
