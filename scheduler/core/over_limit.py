"""What goes when somebody lowers what may be used of a device below what is held there (L1)."""

from __future__ import annotations

from . import leaving
from .books import Books
from .decisions import Decision, Reason
from .draining import Draining
from .eviction import Eviction, eviction_order
from .instances import Instance
from .room import bytes_told
from .sizes import Bytes
from .states import SETTLED, State


class OverLimit:
    """Limits that others' use lowers make nobody go: only what people say does."""

    def __init__(self, books: Books, eviction: Eviction, draining: Draining) -> None:
        self._fleet = books.fleet
        self._ledger = books.ledger
        self._eviction = eviction
        self._draining = draining

    def settle(self, now: float) -> list[Decision]:
        """The idle go first, as few as suffice; then the busy end their answers and take no new
        ones, the soonest free first. Pinned ones stay. A limit that is raised again undoes it."""
        drains = [
            i
            for i in self._fleet.by_state[State.DRAINING].values()
            if i.reason is Reason.OVER_LIMIT
        ]
        if not drains and not self._ledger.lowered:
            return []
        leaves = {i.id for i in self._fleet if i.leaving}
        if not self._ledger.over_limits(()):
            self._ledger.end_lowered()
        if not self._ledger.over_limits(leaves - {drain.id for drain in drains}):
            return [leaving.undrain(drain) for drain in drains if self._draining.may_undo(drain)]
        over = self._ledger.over_limits(leaves)
        return [self._end(instance, over, now) for instance in self._chosen(over, now)]

    def _chosen(self, over: Bytes, now: float) -> list[Instance]:
        if not over:
            return []
        settled = [i for i in self._fleet if i.state in SETTLED and not i.preset.pinned]
        idle = [i for i in settled if not i.busy]
        if enough := self._eviction.for_memory(idle, over, now):
            return enough
        busy = [i for i in settled if i.busy]
        busy.sort(key=lambda i: (self._draining.free_in(i, now), i.id))
        chosen, _ = self._eviction.until_enough([*sorted(idle, key=eviction_order), *busy], over)
        return chosen

    def _end(self, instance: Instance, over: Bytes, now: float) -> Decision:
        figures = (
            *bytes_told("over", over),
            *bytes_told("frees", self._ledger.frees(instance.id)),
        )
        return leaving.leave(instance, Reason.OVER_LIMIT, now, figures)
