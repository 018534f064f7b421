"""The only places where a load begins: with its grant, which is held from that step on."""

from __future__ import annotations

from enum import Enum, auto

from .books import Books
from .decisions import Figures, Reason, Start, Wake
from .instances import Instance
from .room import Room, bytes_told
from .siting import Siting
from .sizes import Grant, Placement
from .states import Cue, State
from .wait_queue import Entry

LEFT_ROOM_FOR = 16
"""How many entries of the queue a grant leaves room for (L2)."""


class Need(Enum):
    """What an entry needs before it can be served."""

    START = auto()
    WAKE = auto()
    NOTHING = auto()  # loading, or loaded and saturated


class Starting:
    def __init__(self, books: Books, room: Room, siting: Siting) -> None:
        self._presets = books.presets
        self._guessed = books.guessed
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._ledger = books.ledger
        self._room = room
        self._siting = siting

    def need(self, entry: Entry) -> Need:
        return need_with(self._fleet.current(entry.preset))

    def start(self, entry: Entry, now: float, *, beside: bool) -> Start:
        self._order.drop(entry.preset)
        spec, site, startup = self._presets[entry.preset], entry.site, entry.startup_only
        later = self._later(now) if self._ledger.limits else ()
        grant, step = self._siting.grant(entry, spec, self._room.promised(entry), later)
        figures = (("waiters", entry.size), *self._grant_told(grant))
        self._queue.needs_no_room(entry)
        instance = self._fleet.add(
            spec,
            now,
            startup=startup,
            beside=beside,
            grant=grant,
            step=step,
            alone=site is not None and site.alone,
        )
        self._queue.touched[entry.preset] = None
        if spec.measuring:
            self._guessed.add(entry.preset)
        self._ledger.hold(instance.id, grant.need)
        reason = Reason.STARTUP if startup else Reason.REQUESTED
        return Start(instance.id, spec, reason, figures, grant)

    def _later(self, now: float) -> list[Entry]:
        """Those that the grant leaves room for: the next few of the queue, and those that are
        skipped while they are measured, as far as it is known what these take."""
        found = self._order.first_few(LEFT_ROOM_FOR, now)
        skipped = [
            entry
            for entry in self._queue.entries.values()
            if entry.preset not in self._order and self._siting.figures_due(entry) > now
        ]
        skipped.sort(key=lambda entry: entry.since)
        return [*found, *skipped[: LEFT_ROOM_FOR - len(found)]]

    def _grant_told(self, grant: Grant) -> Figures:
        if not grant.need:
            return ()
        return (
            ("placement", placement_told(grant.placement)),
            ("context", grant.context),
            *bytes_told("maps", grant.need.mapped),
            *self._room.told(grant.need),
        )

    def wake(self, entry: Entry, instance: Instance, now: float, *, beside: bool) -> Wake:
        self._order.drop(entry.preset)
        entry.head_since = None
        self._ledger.hold(instance.id, instance.takes)
        self._queue.needs_no_room(entry)
        instance.advance(Cue.WAKE)
        instance.load_begins(now)
        instance.beside = beside
        return Wake(instance.id)


def need_with(current: Instance | None) -> Need:
    if current is None:
        return Need.START
    return Need.WAKE if current.state is State.SLEEPING else Need.NOTHING


def placement_told(placement: Placement) -> str:
    """As a person reads it: `partial, 20 on CUDA0`."""
    layers = ", ".join(f"{count} on {device}" for device, count in placement.layers)
    return f"{placement.kind}, {layers}" if layers else str(placement.kind)
