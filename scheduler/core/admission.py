"""Who may load now (A2), what goes for it (A3, A5, A6), and start-up loads (A10).

There are two kinds of entry. One without a usable (loaded) instance waits for a start or a wake;
the first of these with neither under way is the head, and only the head may load or evict. One
whose instance is loaded but saturated waits for a lease: it needs no room and never blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum, auto
from functools import partial
from itertools import chain

from . import leaving
from .books import Books
from .decisions import Decision, Figures, Reason, Start, Wake
from .draining import Draining
from .eviction import Eviction, eviction_order
from .granting import Granting
from .instances import Instance
from .room import Room, Shortage
from .siting import NoPlace, Siting
from .sizes import Grant, Placement
from .states import Cue, State
from .values import Code, PresetName, Refusal
from .wait_queue import Entry, Place, Site

ASK_AGAIN_SECONDS = 5.0
"""What a client is told to wait when nothing better is known."""
LOOKED_AT_BESIDE = 16
"""How many entries behind a waiting head are tried whether they fit beside it (A2)."""


class Need(Enum):
    START = auto()
    WAKE = auto()
    NOTHING = auto()  # loading, or loaded and saturated


class Outcome(Enum):
    """What became of the head in this step."""

    MOVED_ON = auto()  # started, woken or refused: the next entry is head
    WAITS_FOR_LOADER = auto()
    WAITS_FOR_ROOM = auto()
    WAITS_FOR_FIGURES = auto()  # it is being measured: others go on (L5)
    WAITS_FOR_OTHERS = auto()  # what is not Corral's stands in its way: others go on (A6)


Step = tuple[Outcome, list[Decision]]
SKIPPED = frozenset({Outcome.WAITS_FOR_FIGURES, Outcome.WAITS_FOR_OTHERS})


class Admission:
    """`next_drain` is when a busy instance may be drained for the head, while none is yet;
    `next_look` when one that is skipped is worth looking at again."""

    def __init__(
        self,
        books: Books,
        room: Room,
        siting: Siting,
        eviction: Eviction,
        draining: Draining,
        granting: Granting,
    ) -> None:
        self._config = books.config
        self._presets = books.presets
        self._failures = books.failures
        self._loaders = max(1, books.config.models_max_loading)
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._ledger = books.ledger
        self._room = room
        self._siting = siting
        self._eviction = eviction
        self._draining = draining
        self._granting = granting
        self.next_drain: float | None = None
        self.next_look: float | None = None
        self.held_up: tuple[PresetName, Outcome] | None = None
        """Who is head and waits, as of the last look."""
        self._head_key: Place | None = None
        self.skipped: dict[PresetName, Outcome] = {}
        """Those that wait for something which no other entry has to wait for."""

    def admit(self, now: float) -> list[Decision]:
        """Derive the head anew and serve it, until one has to wait."""
        decisions: list[Decision] = []
        self.next_drain = self.next_look = self.held_up = None
        self._look_at_skipped_again()
        while (entry := self._order.head(now)) is not None:
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
            self._head_key = self._order.key(entry, now)
            if outcome is Outcome.WAITS_FOR_ROOM:
                decisions += self._load_beside(entry, now)
            break
        return decisions

    def may_matter(self, entry: Entry, now: float) -> bool:
        """An entry has come, or one of its lines has a new first: might that change anything for
        those who wait for a load? Not behind a head that is held up, where nothing sleeps and no
        bytes are counted. What fades with time is seen at the next tick."""
        held_up, key = self.held_up, self._head_key
        if entry.preset not in self._order:
            # Its model is loaded; and while its waiters stood before the head, that was kept.
            return (
                key is not None
                and entry.preset in self._draining.protected
                and not self._order.is_before(entry, key, now)
            )
        return (
            held_up is None
            or key is None
            or entry.preset == held_up[0]
            or self._ledger.limits
            or self.need(entry) is Need.WAKE
            or self._order.is_before(entry, key, now)
        )

    def nobody_waits(self) -> None:
        self.next_drain = self.next_look = self.held_up = None

    def need(self, entry: Entry) -> Need:
        return _need(self._fleet.current(entry.preset))

    def register(self, entry: Entry, current: Instance | None) -> None:
        """A2: whether it waits for a start or a wake, as things now are."""
        need = _need(current)
        if need is Need.NOTHING and (entry.room or entry.evict_first):
            self._queue.needs_no_room(entry)
        if need is Need.NOTHING:
            entry.head_since = None
            self._order.drop(entry.preset)
        else:
            self._order.put(entry)

    # The head -----------------------------------------------------------------

    def _serve_head(self, entry: Entry, now: float) -> Step:
        if entry.looks_only and not self._may_look(entry, now):
            return self._refuse(entry, Refusal(Code.MODEL_NOT_LOADED, ASK_AGAIN_SECONDS))
        if self.need(entry) is Need.WAKE:
            return self._wake_head(entry, now)
        return self._place_head(entry, now)

    def _place_head(self, entry: Entry, now: float) -> Step:
        """Is it known what it takes, and is there a place for it at all?"""
        if (due := self._figures_due(entry)) > now:
            self._look_again(due)
            return Outcome.WAITS_FOR_FIGURES, []
        if no_place := self._siting.settle(entry, self._presets[entry.preset]):
            return self._without_place(entry, no_place, now)
        entry.in_use_since = None
        if entry.startup_only:
            return self._start_up(entry, now)
        if pins := self._room.taken_by_pins():
            return self._refuse(entry, Refusal(Code.BLOCKED_BY_PINNED, blocked_by=pins))
        return self._start_head(entry, now)

    def _start_head(self, entry: Entry, now: float) -> Step:
        shortage = self._shortage_at_best_site(entry, now)
        if shortage and self._room.is_ready(entry):
            # All that went for it has gone, and it is not enough any more: what it keeps from
            # others, they may keep from it.
            self._queue.give_up_room(entry, *list(entry.room))
        if shortage and (exit := self._failures.broken(entry.preset)):
            return self._refuse(entry, Refusal(Code.MODEL_BROKEN, exit=exit))
        if not self._loader_is_to_be_had():
            return Outcome.WAITS_FOR_LOADER, []
        decisions = self._make_room(entry, shortage, now)
        if self._waits_for_room(entry):
            return Outcome.WAITS_FOR_ROOM, decisions
        decisions += self._free_a_loader(entry, now)
        decisions.append(self._start(entry, now, beside=False))
        return Outcome.MOVED_ON, decisions

    # Those that are skipped -----------------------------------------------------

    def _figures_due(self, entry: Entry) -> float:
        """L5: until when it waits for its measurement; later a guess is good enough."""
        spec = self._presets[entry.preset]
        waits = spec.measuring and self._ledger.limits
        return entry.since + self._config.measure_wait_seconds if waits else 0.0

    def unmeasured_for_long(self, now: float) -> list[PresetName]:
        """For half of what they wait for it."""
        since = now - self._config.measure_wait_seconds / 2
        return [
            preset
            for preset, outcome in self.skipped.items()
            if outcome is Outcome.WAITS_FOR_FIGURES and self._queue.entries[preset].since <= since
        ]

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
        refusal = Refusal(
            no_place.code, again, blocked_by=no_place.blocked_by, short=no_place.short
        )
        return self._refuse(entry, refusal)

    def _skip(self, entry: Entry, outcome: Outcome) -> None:
        entry.head_since = None
        self.skipped[entry.preset] = outcome
        self._order.drop(entry.preset)

    def _look_at_skipped_again(self) -> None:
        for preset in self.skipped:
            entry = self._queue.entries.get(preset)
            if entry is not None and self.need(entry) is not Need.NOTHING:
                self._order.put(entry)
        self.skipped.clear()

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
            return Outcome.MOVED_ON, [leaving.ask_exit(sleeper, Reason.MOVED, now, entry.preset)]
        entry.wakes, entry.site = sleeper, Site(sleeper.grant.placement, sleeper.takes)
        shortage = self._room.shortage(entry)
        if shortage and entry.startup_only:
            return self._refuse(entry, Refusal(Code.DOES_NOT_FIT))
        if not self._loader_is_to_be_had(or_killed=not entry.startup_only):
            return Outcome.WAITS_FOR_LOADER, []
        decisions = self._make_room(entry, shortage, now)
        if not self._room.free_now(entry):
            return Outcome.WAITS_FOR_ROOM, decisions
        return Outcome.MOVED_ON, [
            *decisions,
            *self._free_a_loader(entry, now),
            self._wake(entry, now, beside=False),
        ]

    def _start_up(self, entry: Entry, now: float) -> Step:
        """A10: one by one, evicting nobody; what does not fit is skipped, but only once nothing is
        stopping."""
        if not self._loader_is_to_be_had(or_killed=False) or self._starts_up_already():
            return Outcome.WAITS_FOR_LOADER, []
        if not self._waits_for_room(entry):
            return Outcome.MOVED_ON, [self._start(entry, now, beside=False)]
        if self._room.stopping:
            return Outcome.WAITS_FOR_ROOM, []
        return self._refuse(entry, Refusal(Code.DOES_NOT_FIT))

    def _starts_up_already(self) -> bool:
        return any(i.startup for i in self._loading())

    def _refuse(self, entry: Entry, refusal: Refusal) -> Step:
        self._order.drop(entry.preset)
        return Outcome.MOVED_ON, self._granting.refuse_all(entry.preset, refusal)

    # Room ---------------------------------------------------------------------

    def _shortage_at_best_site(self, entry: Entry, now: float) -> Shortage:
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

    def _is_free_somewhere(self, entry: Entry, is_free: Callable[[Entry], bool]) -> bool:
        """At one of its places, which is then the one that it gets."""
        for site in entry.sites:
            entry.site = site
            if is_free(entry):
                return True
        return False

    def _make_room(self, entry: Entry, shortage: Shortage, now: float) -> list[Decision]:
        """A5: victims when there is no room and none is coming. A4: one more before a load that
        ran out of memory is tried again; but nobody goes for one that failed by itself before.
        A6: busy ones drain when the idle do not suffice."""
        if drains := self._draining.of(entry):
            return self._take_idle_instead(entry, drains, now)
        if entry.evict_first and self._failures.broken(entry.preset) is None:
            one = Shortage(slot=True)
            if victims := self._eviction.choose(entry, one, now):
                entry.evict_first, entry.await_room = False, True
                return self._evict(entry, victims, now)
        if not shortage:
            return []
        if victims := self._eviction.choose(entry, shortage, now):
            return self._evict(entry, victims, now)
        decisions, self.next_drain = self._draining.begin(entry, shortage, now)
        return decisions

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
        decisions: list[Decision] = []
        for victim in victims:
            self._queue.reserve(entry, victim.id)
            unwanted = victim.state is State.LOADING
            reason = Reason.UNWANTED if unwanted else Reason.EVICTED
            figures = (
                ("idle_for", round(now - victim.last_used, 3)),
                ("loaded_for", round(now - victim.loaded_at, 3) if victim.loaded_at else 0.0),
                ("waiters", entry.size),
                *_bytes_told("frees", self._ledger.frees(victim.id)),
            )
            decisions.append(leaving.ask_exit(victim, reason, now, entry.preset, figures))
        return decisions

    def _waits_for_room(self, entry: Entry) -> bool:
        if entry.await_room and not self._room.is_ready(entry):
            return True
        return not self._room.free_now(entry)

    # Loaders ------------------------------------------------------------------

    def _loading(self) -> Collection[Instance]:
        return self._fleet.by_state[State.LOADING].values()

    def _loads_counted(self) -> int:
        """Loads that the head waits for: not those beside a head that waited for room."""
        return sum(not i.beside for i in self._loading())

    def _unwanted_loads(self) -> list[Instance]:
        return [i for i in self._loading() if self._eviction.is_unwanted_load(i) and not i.beside]

    def _loader_is_to_be_had(self, *, or_killed: bool = True) -> bool:
        """A loader is free, or would be with the unwanted loads killed (A3)."""
        to_be_killed = len(self._unwanted_loads()) if or_killed else 0
        return self._loads_counted() - to_be_killed < self._loaders

    def _free_a_loader(self, entry: Entry, now: float) -> list[Decision]:
        """A3: an unwanted load is killed when the head needs its loader."""
        decisions: list[Decision] = []
        while self._loads_counted() >= self._loaders:
            unwanted = min(self._unwanted_loads(), key=eviction_order)
            decisions.append(leaving.kill(unwanted, Reason.UNWANTED, now, entry.preset))
        return decisions

    def a_look_may_load(self, preset: PresetName, now: float) -> bool:
        """A8: it starts in this very step, or not at all: nobody queues, a loader is free, there
        is room without evicting anyone, and it would not end at once."""
        entry = Entry(preset, now)
        return not len(self._order) and self._may_look(entry, now)

    def _may_look(self, entry: Entry, now: float) -> bool:
        """A8: neither a wake nor a second try is for a look."""
        return (
            self.need(entry) is Need.START
            and not entry.evict_first
            and self._loader_is_to_be_had(or_killed=False)
            and self._figures_due(entry) <= now
            and not self._siting.settle(entry, self._presets[entry.preset])
            and self._is_free_somewhere(entry, self._room.free_now)
        )

    # Beside a head that only waits for room -------------------------------------

    def _load_beside(self, head: Entry, now: float) -> list[Decision]:
        """A2: a later entry may load when that evicts nobody and leaves the head's room covered."""
        decisions: list[Decision] = []
        for entry in self._beside(head, now):
            if len(self._loading()) >= self._loaders:
                break
            if self._may_wake_beside(head, entry):
                decisions.append(self._wake(entry, now, beside=True))
            elif self._may_start_beside(head, entry, now):
                decisions.append(self._start(entry, now, beside=True))
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
        if self._ledger.limits:
            few = self._order.first_few(LOOKED_AT_BESIDE, now)
            found += [e for e in few if e is not head and e.preset not in entries]
        return found

    def _may_wake_beside(self, head: Entry, entry: Entry) -> bool:
        """A wake takes no slot; but awake and in use, its instance is no victim for the head, and
        takes memory, which a head that ran out of it (A4) has just been promised."""
        if head.await_room:
            return False
        sleeper = self._fleet.current(entry.preset)
        if sleeper is None or sleeper.state is not State.SLEEPING:
            return False
        entry.wakes, entry.site = sleeper, Site(sleeper.grant.placement, sleeper.takes)
        if not self._room.free_now(entry):
            return False
        return not self._room.shortage(head, beside=entry) or sleeper.preset.pinned

    def _may_start_beside(self, head: Entry, entry: Entry, now: float) -> bool:
        """With the room that was made for it when it was head itself; or where bytes are short for
        the head, and it is small and there is a slot more than the head's."""
        if entry.startup_only or self.need(entry) is not Need.START:
            return False
        if self._room.is_ready(entry):
            return self._room.free_now(entry)
        return (
            self._ledger.limits
            and not head.await_room
            and not self._failures.broken(entry.preset)
            and self._figures_due(entry) <= now
            and not self._siting.settle(entry, self._presets[entry.preset])
            and self._is_free_somewhere(entry, partial(self._room.fits_beside, head))
        )

    # The only places where a load begins ----------------------------------------

    def _start(self, entry: Entry, now: float, *, beside: bool) -> Start:
        self._order.drop(entry.preset)
        spec, site, startup = self._presets[entry.preset], entry.site, entry.startup_only
        later = self._order.first_few(LOOKED_AT_BESIDE, now) if self._ledger.limits else ()
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
        self._ledger.hold(instance.id, grant.need)
        reason = Reason.STARTUP if startup else Reason.REQUESTED
        return Start(instance.id, spec, reason, figures, grant)

    def _grant_told(self, grant: Grant) -> Figures:
        if not grant.need:
            return ()
        free, _ = self._ledger.free()
        devices = [device for device, _ in grant.need.own]
        return (
            ("placement", placement_told(grant.placement)),
            ("context", grant.context),
            *_bytes_told("needs", grant.need.own),
            *_bytes_told("maps", grant.need.mapped),
            *_bytes_told("available", tuple((d, free[d]) for d in devices if d in free)),
        )

    def _wake(self, entry: Entry, now: float, *, beside: bool) -> Wake:
        instance = self._fleet.current(entry.preset)
        assert instance is not None
        self._order.drop(entry.preset)
        entry.head_since = None
        self._ledger.hold(instance.id, instance.takes)
        self._queue.needs_no_room(entry)
        instance.advance(Cue.WAKE)
        instance.load_begins(now)
        instance.beside = beside
        return Wake(instance.id)


def _need(current: Instance | None) -> Need:
    if current is None:
        return Need.START
    return Need.WAKE if current.state is State.SLEEPING else Need.NOTHING


def _bytes_told(name: str, sizes: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple((f"{name}_{where}", size) for where, size in sizes)


def placement_told(placement: Placement) -> str:
    """As a person reads it: `partial, 20 on CUDA0`."""
    layers = ", ".join(f"{count} on {device}" for device, count in placement.layers)
    return f"{placement.kind}, {layers}" if layers else str(placement.kind)
