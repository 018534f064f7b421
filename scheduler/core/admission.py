"""Who may load now (A2), what goes for it (A3, A5, A6), and start-up loads (A10).

There are two kinds of entry. One without a usable (loaded) instance waits for a start or a wake;
the first of these with neither under way is the head, and only the head may load or evict. One
whose instance is loaded but saturated waits for a lease: it needs no room and never blocks.
"""

from __future__ import annotations

from enum import Enum, auto

from . import leaving
from .beside import Beside
from .books import Books
from .decisions import Decision, Reason
from .draining import Draining
from .eviction import Eviction
from .granting import Granting
from .instances import Instance
from .line import Place
from .loaders import Loaders
from .making_room import MakingRoom
from .room import Room, Shortage
from .siting import NoPlace, Siting
from .starting import Need, Starting, need_with
from .values import Code, PresetName, Refusal
from .wait_queue import Entry, Site

ASK_AGAIN_SECONDS = 5.0
"""What a client is told to wait when nothing better is known."""


class Outcome(Enum):
    """What became of the head in this step."""

    MOVED_ON = auto()  # started, woken or refused: the next entry is head
    WAITS_FOR_LOADER = auto()
    WAITS_FOR_ROOM = auto()
    WAITS_FOR_FIGURES = auto()  # it is being measured: others go on (L5)
    WAITS_FOR_IDLE = auto()  # nobody is drained for whose clients have gone: others go on (A9)
    WAITS_FOR_OTHERS = auto()  # what is not Corral's stands in its way: others go on (A6)


Step = tuple[Outcome, list[Decision]]
SKIPPED = frozenset({Outcome.WAITS_FOR_FIGURES, Outcome.WAITS_FOR_OTHERS, Outcome.WAITS_FOR_IDLE})
LOOKED_AT = 16
"""How many of those for which nobody is drained are tried in a step: a look is dear."""


class Admission:
    """`next_look` is when one that is skipped is worth looking at again."""

    def __init__(
        self,
        books: Books,
        room: Room,
        siting: Siting,
        eviction: Eviction,
        draining: Draining,
        granting: Granting,
    ) -> None:
        self._books = books
        self._ledger = books.ledger
        self._config = books.config
        self._presets = books.presets
        self._failures = books.failures
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._room = room
        self._siting = siting
        self._eviction = eviction
        self._draining = draining
        self._granting = granting
        self._loaders = Loaders(books, eviction)
        self._starting = Starting(books, room, siting)
        self._making_room = MakingRoom(books, room, siting, eviction, draining)
        self._beside = Beside(books, room, siting, self._loaders, self._making_room, self._starting)
        self.next_look: float | None = None
        self.held_up: tuple[PresetName, Outcome] | None = None
        """Who is head and waits, as of the last look."""
        self._head_key: Place | None = None
        self.skipped: dict[PresetName, Outcome] = {}
        """Those that wait for something which no other entry has to wait for."""
        self._skipped_by: tuple[object, ...] = ()

    def admit(self, now: float) -> list[Decision]:
        """Derive the head anew and serve it, until one has to wait."""
        decisions: list[Decision] = []
        self._draining.next_at = self.held_up = None
        self._look_at_skipped_again(now)
        self._making_room.give_up_what_is_not_enough(now)
        while (first := self._order.first(now)) is not None:
            entry, key = first
            self.skipped.pop(entry.preset, None)
            if entry.head_since is None:
                entry.head_since = now
            outcome, step = self._serve_head(entry, now)
            decisions += step
            if outcome is Outcome.MOVED_ON:
                continue
            if outcome in SKIPPED:
                self._skip(entry, outcome)
                continue
            self.held_up = entry.preset, outcome
            self._head_key = key
            if outcome is Outcome.WAITS_FOR_ROOM:
                decisions += self._beside.load(entry, now)
            return decisions
        return decisions + self._beside.grow(now)

    def may_matter(self, entry: Entry, current: Instance | None, now: float) -> bool:
        """An entry has come, or one of its lines has a new first: might that change anything for
        those who wait for a load? Not behind a head that is held up, where nothing sleeps and no
        bytes are counted. What fades with time is seen at the next tick."""
        held_up, key = self.held_up, self._head_key
        if entry.preset not in self._order:
            # Its model is loaded; and while its waiters stood before the head, that was kept.
            protects = (
                key is not None
                and entry.preset in self._draining.protected
                and not self._order.is_before(entry, key, now)
            )
            return protects or self._beside.might_grow(entry.preset)
        return (
            held_up is None
            or key is None
            or entry.preset == held_up[0]
            or self._beside.might_load()
            or need_with(current) is Need.WAKE
            or self._order.is_before(entry, key, now)
        )

    def nobody_waits(self, now: float) -> list[Decision]:
        """For a load; some may wait for a slot."""
        self._draining.next_at = self.next_look = self.held_up = None
        return self._beside.grow(now)

    def register(self, entry: Entry, current: Instance | None) -> None:
        """A2: whether it waits for a start or a wake, as things now are."""
        need = need_with(current)
        if need is Need.NOTHING:
            if entry.room or entry.evict_first:
                self._queue.needs_no_room(entry)
            entry.head_since = None
            self.skipped.pop(entry.preset, None)
            self._order.drop(entry.preset)
        else:
            self._order.put(entry)

    # The head -----------------------------------------------------------------

    def _serve_head(self, entry: Entry, now: float) -> Step:
        if entry.looks_only and not self._may_look(entry, now):
            return self._refuse(entry, Refusal(Code.MODEL_NOT_LOADED, ASK_AGAIN_SECONDS))
        if self._starting.need(entry) is Need.WAKE:
            return self._wake_head(entry, now)
        return self._place_head(entry, now)

    def _place_head(self, entry: Entry, now: float) -> Step:
        """Is it known what it takes, and is there a place for it at all?"""
        if (due := self._siting.figures_due(entry)) > now:
            self._look_again(due)
            return Outcome.WAITS_FOR_FIGURES, []
        if no_place := self._siting.settle(entry, self._presets[entry.preset]):
            return self._without_place(entry, no_place, now)
        entry.in_use_since = None
        if entry.startup_only:
            return self._start_up(entry, now)
        if refusal := self._room.refused_for_pins(self._presets[entry.preset]):
            return self._refuse(entry, refusal)
        return self._start_head(entry, now)

    def _start_head(self, entry: Entry, now: float) -> Step:
        shortage = self._making_room.shortage_at_best_site(entry, now)
        if shortage and self._room.is_ready(entry):
            # All that went for it has gone, and it is not enough any more: what it keeps from
            # others, they may keep from it.
            self._queue.give_up_room(entry, *list(entry.room))
        if shortage and (exit := self._failures.broken(entry.preset)):
            return self._refuse(entry, Refusal(Code.MODEL_BROKEN, exit=exit))
        if not self._loaders.to_be_had():
            return Outcome.WAITS_FOR_LOADER, []
        decisions = self._making_room.make(entry, shortage, now)
        if self._making_room.waits(entry):
            return self._waits_for_room(entry, shortage), decisions
        decisions += self._loaders.free_one(entry, now)
        decisions.append(self._starting.start(entry, now, beside=False))
        return Outcome.MOVED_ON, decisions

    def _waits_for_room(self, entry: Entry, shortage: Shortage) -> Outcome:
        if self._making_room.needs_a_drain(entry, shortage):
            return Outcome.WAITS_FOR_IDLE
        return Outcome.WAITS_FOR_ROOM

    # Those that are skipped -----------------------------------------------------

    def unmeasured(self, now: float) -> list[tuple[PresetName, bool]]:
        """Those that wait for their measurement, and whether half of that wait is over."""
        successors = self._beside.unmeasured()
        if not self.skipped and not successors:
            return []
        waiting = {
            preset: entry.since
            for preset, outcome in self.skipped.items()
            if outcome is Outcome.WAITS_FOR_FIGURES
            and (entry := self._queue.entries.get(preset)) is not None
        }
        half = now - self._config.measure_wait_seconds / 2
        since = successors | waiting
        return [(preset, begun <= half) for preset, begun in since.items()]

    def _without_place(self, entry: Entry, no_place: NoPlace, now: float) -> Step:
        """A6: pins and its own size refuse it at once; what others use, when that has lasted for
        its longest wait."""
        if no_place.code is Code.MEMORY_IN_USE and not entry.startup_only:
            if entry.in_use_since is None:
                entry.in_use_since = now
            due = entry.in_use_since + self._eviction.patience(entry)
            if due > now:
                self._look_again(due)
                return Outcome.WAITS_FOR_OTHERS, []
        again = ASK_AGAIN_SECONDS if no_place.code is Code.MEMORY_IN_USE else None
        told = Refusal(no_place.code, again, blocked_by=no_place.blocked_by, short=no_place.short)
        return self._refuse(entry, told)

    def _skip(self, entry: Entry, outcome: Outcome) -> None:
        """It holds nobody up: what was made for it may be another's."""
        if entry.room:
            self._queue.give_up_room(entry, *list(entry.room))
        entry.head_since = entry.site = None
        self.skipped[entry.preset] = outcome
        self._order.drop(entry.preset)

    def _look_at_skipped_again(self, now: float) -> None:
        """Only when something has changed that they wait for: a look at each of many is dear."""
        self._look_at_detached_again()
        rests_on = self._ledger.version, tuple(self._fleet.pinned), self._books.edits
        due = self.next_look is not None and self.next_look <= now
        if rests_on == self._skipped_by and not due:
            gone = [preset for preset in self.skipped if preset not in self._queue.entries]
            for preset in gone:
                del self.skipped[preset]
            return
        self._skipped_by, self.next_look = rests_on, None
        for preset in self.skipped:
            entry = self._queue.entries.get(preset)
            if entry is not None and self._starting.need(entry) is not Need.NOTHING:
                self._order.put(entry)
        self.skipped.clear()

    def _look_at_detached_again(self) -> None:
        """A few in each step, in turn: whatever ends may be what they wait for."""
        waiting = [p for p, why in self.skipped.items() if why is Outcome.WAITS_FOR_IDLE]
        for preset in waiting[:LOOKED_AT]:
            entry = self._queue.entries.get(preset)
            del self.skipped[preset]
            if entry is not None and self._starting.need(entry) is not Need.NOTHING:
                self._order.put(entry)

    def _look_again(self, due: float) -> None:
        if self.next_look is None or due < self.next_look:
            self.next_look = due

    # A wake -------------------------------------------------------------------------

    def _wake_head(self, entry: Entry, now: float) -> Step:
        """A2: a wake needs no slot, but a loader. A10: a start-up load kills none for it. L8: it
        needs its memory again, where it sleeps; if that cannot be, it goes, and starts anew."""
        sleeper = self._fleet.current(entry.preset)
        assert sleeper is not None
        if not self._siting.wakes_in_place(sleeper):
            return Outcome.MOVED_ON, [leaving.leave(sleeper, Reason.MOVED, now)]
        entry.wakes, entry.site = sleeper, Site(sleeper.grant.placement, sleeper.takes)
        if refusal := self._room.refused_for_pins(self._presets[entry.preset], wakes=True):
            return self._refuse(entry, refusal)
        shortage = self._room.shortage(entry)
        if shortage and entry.startup_only:
            return self._refuse(entry, Refusal(Code.DOES_NOT_FIT))
        if not self._loaders.to_be_had(or_killed=not entry.startup_only):
            return Outcome.WAITS_FOR_LOADER, []
        decisions = self._making_room.make(entry, shortage, now)
        if not self._room.free_now(entry):
            return self._waits_for_room(entry, shortage), decisions
        return Outcome.MOVED_ON, [
            *decisions,
            *self._loaders.free_one(entry, now),
            self._starting.wake(entry, sleeper, now, beside=False),
        ]

    def _start_up(self, entry: Entry, now: float) -> Step:
        """A10: one by one, evicting nobody; what does not fit is skipped, but only once nothing is
        stopping."""
        if not self._loaders.to_be_had(or_killed=False) or self._loaders.starting_up:
            return Outcome.WAITS_FOR_LOADER, []
        if not self._making_room.waits(entry):
            return Outcome.MOVED_ON, [self._starting.start(entry, now, beside=False)]
        if self._room.stopping:
            return Outcome.WAITS_FOR_ROOM, []
        return self._refuse(entry, Refusal(Code.DOES_NOT_FIT))

    def _refuse(self, entry: Entry, refusal: Refusal) -> Step:
        self._order.drop(entry.preset)
        return Outcome.MOVED_ON, self._granting.refuse_all(entry.preset, refusal)

    # Looks -----------------------------------------------------------------------

    def a_look_may_load(self, preset: PresetName, now: float) -> bool:
        """A8: it starts in this very step, or not at all: nobody queues, a loader is free, and
        there is room without evicting anyone."""
        entry = Entry(preset, now)
        return not len(self._order) and self._may_look(entry, now)

    def _may_look(self, entry: Entry, now: float) -> bool:
        """A8: neither a wake nor a second try is for a look, nor a load that would end at once."""
        seconds = self._presets[entry.preset].keep_alive_seconds
        keep = self._config.keep_alive_seconds if seconds is None else seconds
        return (
            self._starting.need(entry) is Need.START
            and keep != 0
            and not entry.evict_first
            and self._loaders.to_be_had(or_killed=False)
            and self._siting.figures_due(entry) <= now
            and not self._siting.settle(entry, self._presets[entry.preset])
            and self._making_room.is_free_somewhere(entry, self._room.free_now)
        )
