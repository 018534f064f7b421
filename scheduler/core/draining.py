"""A6: no starvation. When nobody idle can make way for the head, busy instances take no new request
for its sake, so that they come to their end; and A3: what becomes of such a drain afterwards."""

from __future__ import annotations

import heapq

from . import leaving
from .books import Books
from .decisions import Decision, Figures, Reason
from .eviction import Eviction, eviction_order
from .instances import Fleet, Instance
from .room import Room, Shortage, need_of
from .siting import Siting
from .states import State
from .values import InstanceId, PresetName
from .wait_queue import Entry


class Draining:
    def __init__(self, books: Books, room: Room, siting: Siting, eviction: Eviction) -> None:
        self._config = books.config
        self._presets = books.presets
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._learned = books.learned
        self._room = room
        self._siting = siting
        self._eviction = eviction
        self.protected: set[PresetName] = set()
        """Those who drain later because their waiters stood before the head, as of the last look.
        """
        self.next: Instance | None = None
        """Who will drain for the head when its time has come, as of the last look."""
        self.next_at: float | None = None
        """When that is, while nobody is drained for the head; or when an idle one may go instead of
        one that drains."""

    # Whom, and when --------------------------------------------------------------

    def _due(
        self, entry: Entry, now: float
    ) -> tuple[list[Instance], float | None, Instance | None]:
        """A6: those that may be drained for the entry; when the next of the others may, and which
        one that is. Its own waiters, if they stand before the head, are served for the longest
        that the head waits (V1). Whether they do is looked at only where it counts."""
        key = self._order.key(entry, now)
        longest = self._eviction.longest_wait(entry, now)
        soonest = self._soonest(entry, longest, now)
        due: list[Instance] = []
        self.protected.clear()
        while soonest:
            at, last_used, number, instance = heapq.heappop(soonest)
            own = None if _is_outlived(instance) else self._queue.entries.get(instance.preset.name)
            if at < longest and own is not None and self._order.is_before(own, key, now):
                self.protected.add(own.preset)
                heapq.heappush(soonest, (longest, last_used, number, instance))
            elif at > now:
                return due, at, instance
            else:
                due.append(instance)
        return due, None, None

    def _soonest(
        self, entry: Entry, longest: float, now: float
    ) -> list[tuple[float, float, InstanceId, Instance]]:
        """A heap of when each may be drained if it has no waiters of its own before the head: the
        later of the ends of its residency and of its quantum, which counts from when others wait;
        or when the head has waited for its longest, if that is earlier. An idle one in its
        residency is among them: it ends when due."""
        weight = _weight(entry)
        head_since = now if entry.head_since is None else entry.head_since
        quantum = self._config.quantum_seconds
        soonest: list[tuple[float, float, InstanceId, Instance]] = []
        for instance in self._fleet.by_state[State.LOADED].values():
            if instance.preset.pinned:
                continue
            if len(instance.siblings) > 1 and _is_outlived(instance):
                # Another of its preset answers on.
                soonest.append((now, instance.last_used, instance.id, instance))
                continue
            at = self._eviction.resident_until(instance)
            if instance.busy:
                loaded_at, mean = instance.loaded_at, instance.mean_weight
                share = 1.0 if mean >= weight else mean / weight  # of the quantum: by its tenants'
                ends = (loaded_at if loaded_at > head_since else head_since) + quantum * share
                at = ends if ends > at else at
            at = at if at < longest else longest
            soonest.append((at, instance.last_used, instance.id, instance))
        heapq.heapify(soonest)
        return soonest

    def free_in(self, instance: Instance, now: float) -> float:
        """When its last answer is expected to end. One that has outlasted the usual time by so
        much is expected to take as much again."""
        usual = self._learned.answer(instance.preset.name)
        rest = [
            abs(usual - (now - lease.since))
            for request, lease in instance.leases.items()
            if request not in instance.abandoned
        ]
        return max(rest, default=0.0)

    def begin(self, entry: Entry, shortage: Shortage, now: float) -> list[Decision]:
        """The cheapest sufficient set of those that are due drains; else the next one is waited
        for."""
        due, self.next_at, self.next = self._due(entry, now)
        chosen = self._enough(due, entry, shortage, now)
        if not chosen:
            return []
        self.next = self.next_at = None
        decisions: list[Decision] = []
        for instance in chosen:
            self._queue.reserve(entry, instance.id)
            figures = self._figures(instance, entry, now)
            if instance.busy:
                decisions.append(leaving.drain_for(instance, entry.preset, figures))
            else:
                exit = leaving.ask_exit(instance, Reason.EVICTED, now, entry.preset, figures)
                decisions.append(exit)
        return decisions

    def _enough(
        self, due: list[Instance], entry: Entry, shortage: Shortage, now: float
    ) -> list[Instance]:
        """The soonest free first, but all whom a group keeps apart from it. Where bytes are short,
        the idle members of the set go at once: used again meanwhile, they would have to be drained
        as well, one drain after the other."""
        due.sort(key=lambda i: (not i.spare, self.free_in(i, now), i.last_used, i.id))
        if not shortage.bytes and not shortage.rivals:
            return due[:1]
        idle = self._eviction.candidates(entry, now)
        rivals = [i for i in (*due, *(i for i in idle if i not in due)) if i.id in shortage.rivals]
        if len(rivals) < len(shortage.rivals):
            return []
        idle = [i for i in idle if i not in rivals]
        busy, missing = self._eviction.until_enough(
            [i for i in due if i not in idle and i not in rivals],
            shortage.bytes,
            [*rivals, *idle],
        )
        if missing:
            return []
        needed, _ = self._eviction.until_enough(
            sorted(idle, key=eviction_order), shortage.bytes, [*rivals, *busy]
        )
        return [*rivals, *busy, *needed]

    def _figures(self, instance: Instance, entry: Entry, now: float) -> Figures:
        head_since = now if entry.head_since is None else entry.head_since
        return (
            ("answers", len(instance.leases)),
            ("free_in", round(self.free_in(instance, now), 3)),
            ("loaded_for", round(now - instance.loaded_at, 3)),
            ("head_for", round(now - head_since, 3)),
            ("waiters", entry.size),
            *self._room.told(need_of(entry)),
        )

    # A3: what becomes of it --------------------------------------------------------

    def mend(self, now: float) -> list[Decision]:
        """Before any grant: a drain whose entry has gone passes to the head if that needs this
        room, else it is undone; so is one whose room is covered otherwise, or whose instance was
        pinned. Traffic alone never undoes one."""
        decisions: list[Decision] = []
        drains = self._fleet.by_state[State.DRAINING].values()
        head = self._order.head(now)
        for instance in [drain for drain in drains if drain.drains_for_an_entry]:
            owner = self._owner(instance)
            if owner is None and self._passes_on(instance, head, now):
                assert head is not None
                self._queue.reserve(head, instance.id)
                figures = (("waiters", head.size),)
                decisions.append(leaving.drain_for(instance, head.preset, figures))
            elif not self.may_undo(instance):
                continue
            elif owner is None or instance.preset.pinned or self._is_covered(owner, head):
                decisions.append(self.undo(instance, owner))
        return decisions

    def _is_covered(self, owner: Entry, head: Entry | None) -> bool:
        """Without its drains. What is free while another is ahead is that one's."""
        drains = _drains_of(owner, self._fleet)
        return owner is head and not self._room.shortage(owner, staying=drains)

    def _owner(self, instance: Instance) -> Entry | None:
        if instance.for_preset is None:
            return None
        entry = self._queue.entries.get(instance.for_preset)
        return entry if entry is not None and instance.id in entry.room else None

    def _passes_on(self, instance: Instance, head: Entry | None, now: float) -> bool:
        """Does the head need this room, now that nobody else does? One that will be skipped gives
        up what it gets: to pass it on to that would never end."""
        return (
            head is not None
            and head.preset != instance.preset.name
            and not instance.preset.pinned
            and not head.room
            and self._fleet.current(head.preset) is None
            and not head.startup_only
            and not head.waits_for_nobody
            and self._siting.figures_due(head) <= now
            and not self._siting.settle(head, self._presets[head.preset])
            and bool(self._room.shortage(head, staying=(instance.id,)))
            and not self._room.shortage(head)
        )

    def may_undo(self, instance: Instance) -> bool:
        """Not beside another one of its preset that was started meanwhile."""
        return self._fleet.current(instance.preset.name) is None

    def undo(self, instance: Instance, owner: Entry | None) -> Decision:
        if owner is not None:
            self._queue.give_up_room(owner, instance.id)
        return leaving.undrain(instance)

    def of(self, entry: Entry) -> list[Instance]:
        """Those that drain for it."""
        drains = _drains_of(entry, self._fleet)
        return [self._fleet.instances[number] for number in drains]


def _is_outlived(instance: Instance) -> bool:
    """Another loaded one of its preset is used later: of several, all but that last one are spare
    even if all of them should have to go."""
    return len(instance.siblings) > 1 and any(
        other.state is State.LOADED
        and (other.last_used, other.id) > (instance.last_used, instance.id)
        for other in instance.siblings.values()
    )


def _weight(entry: Entry) -> float:
    """The best of the tenants that wait."""
    weight = 0.0
    for line in entry.lines.values():
        first = line.first
        if first is not None and first.weight > weight:
            weight = first.weight
    return weight or 1.0


def _drains_of(entry: Entry, fleet: Fleet) -> tuple[InstanceId, ...]:
    return tuple(
        number
        for number in entry.room
        if (instance := fleet.instances.get(number)) is not None and instance.drains_for_an_entry
    )
