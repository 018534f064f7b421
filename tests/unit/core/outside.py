"""What an observer outside the planner can know: who asks, which children live, whose turn it is.

It never looks into the planner.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.decisions import Decision, Reason
from scheduler.core.events import Event
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Exit, Kind, PresetName, PresetSpec

RANK = {Kind.POST: 0, Kind.WEBSOCKET: 0, Kind.LOAD: 1, Kind.STARTUP: 2}


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
    asked_at: float | None = None
    overdue_at: float = 0.0
    killed: bool = False
    progress: float = -1.0
    got_on_at: float = 0.0  # when its load last got on, or began
    leases: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)
    finished_unread: int = 0  # unread answers that the child has ended, unseen so far

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
        self.waiting: dict[int, Ask] = {}
        self.children: dict[int, Child] = {}
        self.room: dict[PresetName, int] = {}  # for whom which victim goes
        self.ran_out: dict[PresetName, int] = {}  # loads out of memory, in a row
        self.evict_once_more: set[PresetName] = set()
        self.awaited: dict[PresetName, int] = {}  # the victim that must be gone before a retry
        self.failed_in_a_row: dict[PresetName, int] = {}
        self.backs_off_until: dict[PresetName, float] = {}
        self.broken: dict[PresetName, Exit] = {}  # those whose last load failed by itself
        self.timer: float | None = None
        self.shut = self.unloading = self.forcing = False
        self.dead: int | None = None  # the child whose exit is being told, and its leases
        self.revoked: set[int] = set()
        self.failed_now: PresetName | None = None
        self.gave_up_memory = False

    # What the rules speak of --------------------------------------------------

    def holder(self, request: int) -> Child | None:
        return next((c for c in self.children.values() if request in c.leases), None)

    def staying(self, preset: PresetName) -> Child | None:
        return next(
            (c for c in self.children.values() if c.spec.name == preset and c.staying), None
        )

    def place(self, preset: PresetName) -> tuple[int, float, int] | None:
        return min((a.place for a in self.waiting.values() if a.preset == preset), default=None)

    def pending(self) -> list[PresetName]:
        """Presets that wait for a start or a wake, in the order of the queue; the first is head."""
        names = {a.preset for a in self.waiting.values()}
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
        return sum(c.going for c in self.children.values())

    def free(self) -> int:
        """A5, less what was made for others than the head."""
        others = sum(preset not in self.pending()[:1] for preset in self.room)
        return self.config.models_max - len(self.children) + self.stopping() - others

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
        for preset in list(self.evict_once_more):
            if self.place(preset) is None or self.staying(preset) is not None:
                self.evict_once_more.discard(preset)
        for preset in list(self.awaited):
            if self.place(preset) is None or self.staying(preset) is not None:
                del self.awaited[preset]
