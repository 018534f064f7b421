"""What an observer outside the planner can know: who asks, which children live, whose turn it is.

It never looks into the planner.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scheduler.core.decisions import Decision, Reason
from scheduler.core.events import Event
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Exit, Kind, PresetName, PresetSpec

RANK = {Kind.POST: 0, Kind.WEBSOCKET: 0, Kind.LOAD: 1, Kind.STARTUP: 2, Kind.GET: 3}
WORK = (Kind.POST, Kind.WEBSOCKET)


def own(value: float | None, general: float | None) -> float | None:
    """A preset's own time, or what holds for all."""
    return general if value is None else value


def following(running: PresetSpec, edited: PresetSpec) -> PresetSpec:
    """An instance's preset after an edit: its options are those it was started with, what the
    preset says of its life is the new word."""
    if running.fingerprint == edited.fingerprint:
        return replace(edited, fixed=running.fixed)
    return replace(
        edited,
        fingerprint=running.fingerprint,
        parallel=running.parallel,
        fixed=running.fixed,
    )


@dataclass
class Since:
    """When something began, where an observer cannot say which of several moments counts: the
    first for what must not come too early, the last for what must not come too late."""

    first: float
    last: float

    def earlier_of(self, other: Since | None) -> Since:
        if other is None:
            return self
        return Since(min(self.first, other.first), min(self.last, other.last))


@dataclass
class Child:
    """One process. `leases` are requests it was granted, `unread` those whose client has left."""

    spec: PresetSpec
    last_used: float
    startup: bool = False
    beside: bool = False
    mood: str = "loading"  # what it last said, or was woken to: loading, loaded, sleeping
    has_loaded: bool = False
    unwanted: bool = False
    draining: bool = False
    drain_reason: Reason | None = None
    drain_for: PresetName | None = None
    loaded: Since | None = None
    released_at: float = 0.0
    restless_at: float = 0.0  # when it was last anything but idle and not wanted
    restless: bool = True
    used: bool = False
    holds_unread: bool = False
    asked_at: float | None = None
    overdue_at: float = 0.0
    killed: bool = False
    progress: float = -1.0
    got_on_at: float = 0.0  # when its load last got on, or began
    leases: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)
    finished_unread: int = 0  # unread answers that the child has ended, unseen so far
    looks: dict[int, float] = field(default_factory=dict)  # request: when it began

    @property
    def going(self) -> bool:
        return self.asked_at is not None or self.killed

    @property
    def staying(self) -> bool:
        return not self.going and not self.draining

    @property
    def read_by_someone(self) -> bool:
        return bool(self.leases - self.unread)


@dataclass
class Ask:
    preset: PresetName
    kind: Kind
    place: tuple[int, float, int]
    since: float


class Outside:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.planner = Planner(config)
        self.now = 0.0
        self.log: list[tuple[Event, float, list[Decision]]] = []
        self.presets: dict[PresetName, PresetSpec] = {}
        self.asked: dict[PresetName, list[float]] = {}  # when its requests came, newest last
        self.waiting: dict[int, Ask] = {}
        self.children: dict[int, Child] = {}
        self.room: dict[PresetName, int] = {}  # for whom which victim goes
        self.room_before: dict[PresetName, int] = {}  # and which went before that one more
        self.ran_out: dict[PresetName, int] = {}  # loads out of memory, in a row
        self.evict_once_more: set[PresetName] = set()
        self.head: dict[PresetName, Since] = {}  # since when they have been head
        self.awaited: dict[PresetName, int] = {}  # the victim that must be gone before a retry
        self.failed_in_a_row: dict[PresetName, int] = {}
        self.backs_off_until: dict[PresetName, float] = {}
        self.failed: dict[PresetName, Exit] = {}  # those whose last load failed by itself
        self.has_loaded: set[PresetName] = set()  # with the options that it has now
        self.timer: float | None = None
        self.sound = True  # no rule was broken so far
        self.shut = self.unloading = self.forcing = False
        self.hanging: int | None = None
        self.dead: int | None = None  # the child whose exit is being told, and its leases
        self.revoked: set[int] = set()
        self.idle: set[int] = set()  # abandoned leases whose slots are told to be idle
        self.failed_now: PresetName | None = None
        self.gave_up_memory = False

    # What the rules speak of --------------------------------------------------

    def holder(self, request: int) -> Child | None:
        return next((c for c in self.children.values() if request in c.leases), None)

    def staying(self, preset: PresetName) -> Child | None:
        return next(
            (c for c in self.children.values() if c.spec.name == preset and c.staying), None
        )

    def asks(self, preset: PresetName, *, looks: bool = False) -> list[Ask]:
        """Who waits for it and counts; or who only wants to look at it."""
        return [
            ask
            for ask in self.waiting.values()
            if ask.preset == preset and (ask.kind is Kind.GET) == looks
        ]

    def requests(self, preset: PresetName) -> int:
        """Those that count in a limit: no loads and no looks."""
        return sum(ask.kind in WORK for ask in self.asks(preset))

    def place(self, preset: PresetName) -> tuple[int, float, int] | None:
        return min((ask.place for ask in self.asks(preset)), default=None)

    def pending(self) -> list[PresetName]:
        """Presets that wait for a start or a wake, in the order of the queue; the first is head."""
        names = {a.preset for a in self.waiting.values() if a.kind is not Kind.GET}
        missing = [n for n in names if (c := self.staying(n)) is None or c.mood == "sleeping"]
        return sorted(missing, key=self.place)

    def startup_only(self, preset: PresetName) -> bool:
        return self.place(preset)[0] == RANK[Kind.STARTUP]

    def starting_up(self) -> bool:
        return any(c.startup and c.mood == "loading" and c.staying for c in self.children.values())

    def is_loaded_for(self, preset: PresetName) -> bool:
        child = self.staying(preset)
        return child is not None and child.mood == "loading"

    def stalls_at(self, child: Child) -> float | None:
        loads = child.mood == "loading" and not child.going
        return child.got_on_at + self.config.load_stall_seconds if loads else None

    def stopping(self) -> int:
        """A5: asked to exit, or draining for an entry."""
        return sum(c.going or c.drain_for is not None for c in self.children.values())

    def free(self) -> int:
        """A5, less what was made for others than the head."""
        others = sum(preset not in self.pending()[:1] for preset in self.room)
        return self.config.models_max - len(self.children) + self.stopping() - others

    def places(self, child: Child) -> int:
        """A8."""
        return int(child.spec.parallel * self.config.oversubscribe)

    # Times ----------------------------------------------------------------------

    def residency(self, child: Child) -> float:
        return own(child.spec.min_residency_seconds, self.config.min_residency_seconds)

    def max_wait(self, preset: PresetName) -> float:
        return own(self.presets[preset].max_wait_seconds, self.config.max_wait_seconds)

    def keep_alive(self, spec: PresetSpec) -> float | None:
        return own(spec.keep_alive_seconds, self.config.keep_alive_seconds)

    def drains(self, child: Child, head: PresetName) -> Since:
        """A6: when a busy child makes way for the head, at the earliest and at the latest."""
        loaded, since = child.loaded, self.head.get(head) or Since(self.now, self.now)

        def due(loaded_at: float, head_since: float) -> float:
            longest = head_since + self.max_wait(head)
            mine = self.place(child.spec.name)
            if mine is not None and mine < self.place(head):
                return longest
            quantum = max(loaded_at, head_since) + self.config.quantum_seconds
            return min(longest, max(loaded_at + self.residency(child), quantum))

        return Since(due(loaded.first, since.first), due(loaded.last, since.last))

    def note_times(self) -> None:
        """Since when the head is head, and what is idle is idle."""
        pending = self.pending()
        for preset in list(self.head):
            if preset not in pending:
                del self.head[preset]
        for place, preset in enumerate(pending):
            since = self.head.get(preset)
            if place == 0 and since is None:
                self.head[preset] = Since(self.now, self.now)
            elif since is not None and (place > 0 or since.last == float("inf")):
                since.last = self.now if place == 0 else float("inf")
        for child in self.children.values():
            before, wanted = child.restless, self.place(child.spec.name) is not None
            child.restless = bool(child.leases or wanted or child.spec.pinned or not child.staying)
            if before or child.restless:
                child.restless_at = self.now

    def made_for_others(self, preset: PresetName) -> list[PresetName]:
        """For whom a slot is kept free: their victims have all exited."""
        return [
            other
            for other, victim in self.room.items()
            if other != preset
            and victim not in self.children
            and self.room_before.get(other) not in self.children
        ]

    def loading(self, *, beside: bool) -> int:
        return sum(
            c.mood == "loading" and c.staying and (beside or not c.beside)
            for c in self.children.values()
        )

    def forget_rooms(self) -> None:
        """Room is an entry's own until it starts, goes, or needs none any more."""
        for preset in list(self.room):
            if self.place(preset) is None or self.staying(preset) is not None:
                del self.room[preset]
                self.room_before.pop(preset, None)
        for preset in list(self.evict_once_more):
            if self.place(preset) is None or self.staying(preset) is not None:
                self.evict_once_more.discard(preset)
        for preset in list(self.awaited):
            if self.place(preset) is None or self.staying(preset) is not None:
                del self.awaited[preset]

    # A4 ----------------------------------------------------------------------

    def fail_load(self, child: Child, exit: Exit) -> None:
        """A4."""
        name = child.spec.name
        if exit.out_of_memory:
            self.ran_out[name] = self.ran_out.get(name, 0) + 1
            self.gave_up_memory = self.ran_out[name] >= self.config.out_of_memory_loads
            if self.place(name) is not None:
                self.evict_once_more.add(name)
        if self.gave_up_memory or not (exit.out_of_memory or child.has_loaded):
            self.note_failed_load(name, exit)

    def note_failed_load(self, name: PresetName, exit: Exit) -> None:
        self.failed_now = name
        self.ran_out.pop(name, None)
        self.evict_once_more.discard(name)
        self.failed_in_a_row[name] = self.failed_in_a_row.get(name, 0) + 1
        back_off = min(2.0 ** (self.failed_in_a_row[name] - 1), 60.0)
        self.backs_off_until[name] = self.now + back_off
        self.failed.pop(name, None)
        if not self.gave_up_memory:
            self.failed[name] = exit

    def is_broken(self, preset: PresetName) -> bool:
        """It failed by itself, and has never loaded with these options, or failed often."""
        often = self.failed_in_a_row.get(preset, 0) >= self.config.broken_after
        return preset in self.failed and (often or preset not in self.has_loaded)

    def clear_failures(self, preset: PresetName) -> None:
        for record in (self.ran_out, self.failed_in_a_row, self.backs_off_until, self.failed):
            record.pop(preset, None)
