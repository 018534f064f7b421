"""Making room for an entry: at which of its places, by whose leaving (A4, A5, A6, L9)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from . import leaving
from .books import Books
from .decisions import Decision, Reason
from .draining import Draining
from .eviction import Eviction
from .instances import Instance
from .room import Room, Shortage, bytes_told, need_of
from .siting import Siting
from .sizes import HOST
from .states import State
from .wait_queue import Entry


class MakingRoom:
    def __init__(
        self, books: Books, room: Room, siting: Siting, eviction: Eviction, draining: Draining
    ) -> None:
        self._books = books
        self._presets = books.presets
        self._failures = books.failures
        self._queue = books.queue
        self._order = books.order
        self._ledger = books.ledger
        self._demand = books.demand
        self._room = room
        self._siting = siting
        self._eviction = eviction
        self._draining = draining

    def shortage_at_best_site(self, entry: Entry, now: float) -> Shortage:
        """L9: of the equally good places the one where nobody has to go, else one where the idle
        suffice, else the one where least is missing. A worse place only for who takes what there
        is now, and where that spares a wait."""
        if entry.room or (len(entry.sites) == 1 and not self._presets[entry.preset].placement_now):
            return self._room.shortage(entry)
        lacks = [(site, self._room.shortage(entry, site=site)) for site in entry.sites]
        lacks.sort(key=lambda lack: sum(size for _, size in lack[1].bytes))
        worse = (
            (site, self._room.shortage(entry, site=site))
            for site in self._siting.worse(entry, self._presets[entry.preset])
        )
        for site, shortage in chain(lacks, worse):
            if not shortage or self._eviction.choose(entry, shortage, now):
                entry.site = site
                return shortage
        entry.site, shortage = lacks[0]
        return shortage

    def give_up_what_is_not_enough(self, now: float) -> None:
        """A2: room that was made for an entry, and is not enough for it any more, is not kept from
        the head: it would wait for what nobody can use."""
        counted = self._ledger.limits or self._books.kept_apart
        if not counted or not self._queue.with_room:
            return
        head = self._order.head(now)
        for entry in reversed(list(self._queue.with_room.values())):
            if entry is not head and self._room.is_ready(entry) and self._room.shortage(entry):
                self._queue.give_up_room(entry, *list(entry.room))

    def is_free_somewhere(self, entry: Entry, is_free: Callable[[Entry], bool]) -> bool:
        """At one of its places, which is then the one that it gets."""
        for site in entry.sites:
            entry.site = site
            if is_free(entry):
                return True
        return False

    def make(self, entry: Entry, shortage: Shortage, now: float) -> list[Decision]:
        """A5: victims when there is no room and none is coming. A4: one more before a load that
        ran out of memory is tried again; but nobody goes for one that failed by itself before.
        A6: busy ones drain when the idle do not suffice, but not for whose clients have all lost
        their connection (A9)."""
        if drains := self._draining.of(entry):
            self._draining.next_at = self._eviction.next_candidate_at(entry, now)
            return self._take_idle_instead(entry, drains, now)
        if entry.evict_first and self._failures.broken(entry.preset) is None:
            one = _one_more(entry)
            if victims := self._eviction.choose(entry, one, now):
                entry.evict_first, entry.await_room = False, True
                return self._evict(entry, victims, now)
        if not shortage:
            return []
        if victims := self._eviction.choose(entry, shortage, now):
            return self._evict(entry, victims, now)
        if entry.waits_for_nobody:
            return []
        return self._draining.begin(entry, shortage, now)

    def _take_idle_instead(
        self, entry: Entry, drains: list[Instance], now: float
    ) -> list[Decision]:
        """While the busy ones still answer, others may have become idle that suffice: those go at
        once, and the drains are undone."""
        without = self._room.shortage(entry, staying=[drain.id for drain in drains])
        victims = self._eviction.choose(entry, without, now)
        if not victims or not all(self._draining.may_undo(drain) for drain in drains):
            return []
        undone = [self._draining.undo(drain, entry) for drain in drains]
        return [*undone, *self._evict(entry, victims, now)]

    def _evict(self, entry: Entry, victims: list[Instance], now: float) -> list[Decision]:
        needed = self._room.told(need_of(entry))
        decisions: list[Decision] = []
        for victim in victims:
            self._queue.reserve(entry, victim.id)
            unwanted = victim.state is State.LOADING
            reason = Reason.UNWANTED if unwanted else Reason.EVICTED
            interval = self._demand.interval(victim.preset.name, now)
            figures = (
                ("idle_for", round(now - victim.last_used, 3)),
                *((("asked_every", round(interval, 3)),) if interval is not None else ()),
                ("loaded_for", round(now - victim.loaded_at, 3) if victim.loaded_at else 0.0),
                ("waiters", entry.size),
                *bytes_told("frees", self._ledger.frees(victim.id)),
                *needed,
            )
            decisions.append(leaving.ask_exit(victim, reason, now, entry.preset, figures))
        return decisions

    def needs_a_drain(self, entry: Entry, shortage: Shortage) -> bool:
        """A9: it waits for what only a drain could bring, and none is begun for it."""
        return entry.waits_for_nobody and bool(shortage) and not entry.room

    def waits(self, entry: Entry) -> bool:
        if entry.await_room and not self._room.is_ready(entry):
            return True
        return not self._room.free_now(entry)


def _one_more(entry: Entry) -> Shortage:
    """A4: of those that have something where it ran out of memory; on the host only where it is
    nowhere else."""
    devices = [device for device, size in need_of(entry).own if size]
    elsewhere = [device for device in devices if device != HOST] or devices
    if not elsewhere:
        return Shortage(slot=True)
    return Shortage(slot=False, bytes=tuple((device, 1) for device in elsewhere))
