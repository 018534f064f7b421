"""Choosing victims among those that nobody uses: who never is one (V1), who goes first (V2, V3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .books import Books
from .instances import Instance
from .ledger import helps, left_of
from .room import Shortage
from .sizes import Bytes
from .states import SETTLED, State
from .values import InstanceId, VictimPolicy
from .wait_queue import Entry


class Eviction:
    def __init__(self, books: Books) -> None:
        self._config = books.config
        self._presets = books.presets
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._learned = books.learned
        self._demand = books.demand
        self._ledger = books.ledger

    # V1: never ------------------------------------------------------------------

    def may_be_evicted(self, instance: Instance, entry: Entry, now: float) -> bool:
        """V1: none of the reasons to stay. Abandoned leases alone do not protect."""
        return not (
            instance.busy
            or is_unsettled(instance)
            or instance.preset.pinned
            or now < min(self.resident_until(instance), self.longest_wait(entry, now))
            or self.is_waited_for_first(instance, entry, now)
        )

    def is_waited_for_first(self, instance: Instance, entry: Entry, now: float) -> bool:
        """V1: its own entry is the one room is made for, or ahead of it: a sleeper to be woken, or
        one full of leases. Else two presets would evict each other in turn."""
        own = self._queue.entries.get(instance.preset.name)
        if own is None or instance.spare:
            return False
        return own is entry or self._order.is_before(own, self._order.key(entry, now), now)

    def resident_until(self, instance: Instance) -> float:
        """Against thrash: so long it stays once it is loaded, if it is wanted at all."""
        if instance.state is not State.LOADED or instance.unwanted:
            return instance.started_at
        seconds = instance.preset.min_residency_seconds
        return instance.loaded_at + (
            self._config.min_residency_seconds if seconds is None else seconds
        )

    def longest_wait(self, entry: Entry, now: float) -> float:
        """A6: until then the head waits for others at the longest, whatever protects them."""
        head_since = now if entry.head_since is None else entry.head_since
        return head_since + self.patience(entry)

    def patience(self, entry: Entry) -> float:
        """The same, in seconds: its preset's own `max_wait`, or the gateway's."""
        spec = self._presets.get(entry.preset)
        seconds = None if spec is None else spec.max_wait_seconds
        return self._config.max_wait_seconds if seconds is None else seconds

    def next_candidate_at(self, entry: Entry, now: float) -> float | None:
        """When the residency of the next idle one ends, or no longer counts for this entry."""
        longest = self.longest_wait(entry, now)
        ends = [
            min(self.resident_until(instance), longest)
            for instance in self._fleet.unread.values()
            if instance.state is State.LOADED and not instance.preset.pinned
        ]
        return min((at for at in ends if at > now), default=None)

    # A3: loads that nobody wants any more ---------------------------------------

    def is_unwanted_load(self, instance: Instance) -> bool:
        """A3: a load or wake under way whose waiters have all left. It is finished, unless the
        head needs its room or its loader."""
        return (
            instance.state is State.LOADING
            and (instance.preset.name not in self._queue.entries or instance.spare)
            and not instance.busy
            and not instance.preset.pinned
        )

    # V2, V3: who goes -------------------------------------------------------------

    def candidates(self, entry: Entry, now: float) -> list[Instance]:
        return [
            instance
            for instance in self._fleet.unread.values()
            if self.is_unwanted_load(instance) or self.may_be_evicted(instance, entry, now)
        ]

    def choose(self, entry: Entry, shortage: Shortage, now: float) -> list[Instance]:
        """Those that go so that `entry` may start; empty when the idle ones do not suffice, or
        nobody has to go."""
        candidates = self.candidates(entry, now)
        if not candidates or not shortage:
            return []
        if shortage.rivals:
            return self._rivals_and_more(candidates, shortage, now)
        if not shortage.bytes:
            return [min(candidates, key=lambda i: self._order_by_count(i, now))]
        return self.for_memory(candidates, shortage.bytes, now)

    def _order_by_count(self, instance: Instance, now: float) -> tuple[float, ...]:
        """V2: who will be wanted again the latest, or with `lru` who was used the longest ago."""
        rank, last_used, number = eviction_order(instance)
        if self._config.victim_policy is VictimPolicy.LRU:
            return rank, last_used, number
        wanted_in = self._demand.wanted_in(instance.preset.name, last_used, now)
        return rank, -wanted_in, last_used, number

    def _rivals_and_more(
        self, candidates: list[Instance], shortage: Shortage, now: float
    ) -> list[Instance]:
        """All whom a group keeps apart from it, and whom else memory needs: a slot is then free."""
        going = [i for i in candidates if i.id in shortage.rivals]
        if len(going) < len(shortage.rivals):
            return []
        left = left_of(shortage.bytes, self._ledger.frees(*shortage.rivals))
        if not left:
            return going
        others = self.for_memory([i for i in candidates if i not in going], left, now)
        return [*going, *others] if others else []

    def for_memory(self, candidates: list[Instance], deficit: Bytes, now: float) -> list[Instance]:
        """V3: the cheapest one that suffices alone, else the cheapest until they suffice; none
        that does not help. What holds unread streams only where the others do not suffice."""
        others = [i for i in candidates if not i.holds_unread]
        if others and len(others) < len(candidates):
            return self._cheapest(others, deficit, now) or self._cheapest(candidates, deficit, now)
        return self._cheapest(candidates, deficit, now)

    def _cheapest(self, candidates: list[Instance], deficit: Bytes, now: float) -> list[Instance]:
        frees = self._ledger.frees
        enough_alone = [i for i in candidates if not left_of(deficit, frees(i.id))]
        if enough_alone:
            return [min(enough_alone, key=lambda i: self._alone(i, deficit, now))]
        ordered = sorted(candidates, key=lambda i: self._price(i, deficit, now))
        chosen, left = self.until_enough(ordered, deficit)
        return [] if left else chosen

    def until_enough(
        self, ordered: Iterable[Instance], deficit: Bytes, going: Collection[Instance] = ()
    ) -> tuple[list[Instance], Bytes]:
        """From the first on, less those that turned out superfluous; and what is still missing.
        `going` go in any case."""
        frees, beside = self._ledger.frees, [i.id for i in going]
        chosen: list[Instance] = []
        left = left_of(deficit, frees(*beside))
        for instance in ordered:
            if not left:
                break
            chosen.append(instance)
            left = left_of(deficit, frees(*beside, *(i.id for i in chosen)))
        for instance in list(reversed(chosen)):
            others = [i.id for i in chosen if i is not instance]
            if left_of(deficit, frees(*beside, *others)) == left:
                chosen.remove(instance)
        return chosen, left

    def _alone(self, instance: Instance, deficit: Bytes, now: float) -> tuple[float, ...]:
        """The smallest, or the cheapest to load again."""
        if self._config.victim_policy is VictimPolicy.COST:
            return self._price(instance, deficit, now)
        devices = {device for device, _ in deficit}
        freed = self._ledger.frees(instance.id)
        size = sum(size for device, size in freed if device in devices)
        return size, *eviction_order(instance)

    def _price(self, instance: Instance, deficit: Bytes, now: float) -> tuple[float, ...]:
        rank, last_used, number = eviction_order(instance)
        if self._config.victim_policy is VictimPolicy.LRU:
            return rank, last_used, number
        # The sooner it is wanted again, the sooner its load is paid for once more.
        preset = instance.preset.name
        reload = self._learned.load(preset) / (1.0 + self._demand.wanted_in(preset, last_used, now))
        freed = max(1, helps(deficit, self._ledger.frees(instance.id)))
        return rank, reload / freed, last_used, number


def is_unsettled(instance: Instance) -> bool:
    """V1: neither loaded nor sleeping, so it is loading or leaving already."""
    return instance.state not in SETTLED


def eviction_order(instance: Instance) -> tuple[int, float, InstanceId]:
    """V2: the least recently used, within these classes: a load that nobody wants (A3); one
    that nobody wanted any more when it was done; a replica beside others; a sleeper; an idle one;
    one that works for nobody (only abandoned leases), so that an answer under way is lost last; one
    that holds streams for whom they have not reached yet."""
    if instance.holds_unread:
        rank = 6
    elif not instance.idle:
        rank = 5
    elif instance.state is State.LOADING:
        rank = 0
    elif instance.unwanted:
        rank = 1
    elif instance.spare:
        rank = 2
    elif instance.state is State.SLEEPING:
        rank = 3
    else:
        rank = 4
    return rank, instance.last_used, instance.id
