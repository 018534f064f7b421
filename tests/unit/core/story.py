"""A planner that is told events one by one, a second apart."""

from __future__ import annotations

from scheduler.core.decisions import Decision, Grant, Reject, Start, WakeAt
from scheduler.core.events import (
    Abandoned,
    ApplyAsked,
    Cancelled,
    Detached,
    DevicesRead,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    Silent,
    SleepingReported,
    StreamsHeld,
    Ticked,
)
from scheduler.core.instances import Instance
from scheduler.core.planner import Planner
from scheduler.core.sizes import Bytes
from scheduler.core.values import (
    NO_TENANT,
    Config,
    Exit,
    Kind,
    PresetSpec,
    Priority,
    Refusal,
)

from .memory import readings, sized

CLEAN = Exit(code=0)


def preset(name: str, fingerprint: str = "f", *, need: Bytes = (), **options) -> PresetSpec:
    """`need` is what it takes wherever it is, at any context."""
    return PresetSpec(name, fingerprint, **{"fixed": sized(need), **options})


class Story:
    """Answers are lists of decisions without their timers; `timer` is the last one set."""

    def __init__(self, *presets: str | PresetSpec, **config) -> None:
        # What an exit gives back is back at once, unless a test says otherwise.
        self.planner = Planner(Config(**{"returning_seconds": 0.0, **config}))
        self.now = 0.0
        self.timer: float | None = None
        self.edit(*presets)

    def tell(self, event: Event, *, after: float = 1.0) -> list[Decision]:
        self.now += after
        decisions = self.planner.handle(event, self.now)
        for decision in decisions:
            if isinstance(decision, WakeAt):
                self.timer = decision.when
        return [decision for decision in decisions if not isinstance(decision, WakeAt)]

    # Words for what happens ------------------------------------------------------

    def edit(self, *presets: str | PresetSpec) -> list[Decision]:
        """This is the whole registry from now on."""
        specs = [preset(p) if isinstance(p, str) else p for p in presets]
        return self.tell(PresetsChanged(tuple(specs)))

    def ask(
        self,
        request: int,
        name: str,
        kind: Kind = Kind.POST,
        *,
        arrived: float | None = None,
        after: float = 1.0,
        tenant: str = NO_TENANT,
        weight: float = 1.0,
        priority: Priority = Priority.NORMAL,
        sticky: str = "",
    ) -> list[Decision]:
        arrived = self.now + after if arrived is None else arrived
        asked = Requested(request, name, arrived, Kind(kind), tenant, weight, priority, sticky)
        return self.tell(asked, after=after)

    def look(self, request: int, name: str, *, after: float = 1.0) -> list[Decision]:
        return self.ask(request, name, Kind.GET, after=after)

    def cancel(self, request: int) -> list[Decision]:
        return self.tell(Cancelled(request))

    def detach(self, request: int, *, after: float = 1.0) -> list[Decision]:
        return self.tell(Detached(request), after=after)

    def leave_unread(self, name: str, *, unread: bool = True) -> list[Decision]:
        return self.tell(StreamsHeld(self.of(name).id, unread))

    def rename(self, name: str, *presets: str | PresetSpec, to: str) -> list[Decision]:
        """`presets` are the whole registry from now on."""
        specs = [preset(p) if isinstance(p, str) else p for p in presets]
        return self.tell(PresetsChanged(tuple(specs), ((name, to),)))

    def apply(self, name: str) -> list[Decision]:
        return self.tell(ApplyAsked(name))

    def ready(self, name: str) -> list[Decision]:
        return self.tell(ReadyReported(self.of(name).id))

    def asleep(self, name: str) -> list[Decision]:
        return self.tell(SleepingReported(self.of(name).id))

    def exit(self, instance: int, exit: Exit = CLEAN) -> list[Decision]:
        return self.tell(Exited(instance, exit))

    def release(
        self, request: int, *, tokens: int | None = None, after: float = 1.0
    ) -> list[Decision]:
        return self.tell(Released(request, tokens), after=after)

    def silent(self, name: str) -> list[Decision]:
        return self.tell(Silent(self.of(name).id))

    def devices(self, **capacity: int) -> list[Decision]:
        """Bytes that instances may hold on each device, all of them together."""
        return self.tell(DevicesRead(readings(capacity.items())))

    def abandon(self, request: int) -> list[Decision]:
        return self.tell(Abandoned(request))

    def wait(self, seconds: float) -> list[Decision]:
        return self.tell(Ticked(), after=seconds)

    def until(self, when: float) -> list[Decision]:
        """Only a tick, at that time."""
        return self.tell(Ticked(), after=when - self.now)

    def through(self, when: float) -> list[tuple[float, Decision]]:
        """A tick at each timer that is set, and each second as the shell does it, up to that time;
        what was decided when."""
        told = []
        while self.now < when:
            timer = self.timer if self.timer is not None else when
            step = min(self.now + 1.0, timer if timer > self.now else when, when)
            told += [(step, decision) for decision in self.until(step)]
        return told

    # Longer stretches ---------------------------------------------------------------

    def busy(self, request: int, name: str, **asked) -> int:
        """The request holds a lease on a loaded instance; the instance's id."""
        self.ask(request, name, **asked)
        if self.of(name).state == "loading":
            self.ready(name)
        instance = self.of(name)
        assert request in instance.leases
        return instance.id

    def idle(self, request: int, name: str) -> int:
        """A loaded instance that was used for the request; its id."""
        instance = self.busy(request, name)
        self.release(request)
        return instance

    def sleeping(self, request: int, name: str) -> int:
        instance = self.idle(request, name)
        self.asleep(name)
        return instance

    # Words for what came of it --------------------------------------------------------

    def of(self, name: str) -> Instance:
        """The newest living instance of the preset."""
        return [i for i in self.planner.instances.values() if i.preset.name == name][-1]

    def leases(self, name: str) -> set[int]:
        """The requests that hold a lease on it, abandoned ones included."""
        return set(self.of(name).leases)

    @property
    def alive(self) -> list[str]:
        return [instance.preset.name for instance in self.planner.instances.values()]

    @property
    def queue(self) -> list[str]:
        return [entry.preset for entry in self.planner.entries(self.now)]

    def why(self, request: int):
        """What a person is told who asks why the request waits."""
        return self.planner.explain(request, self.now)


def started(decisions: list[Decision]) -> list[str]:
    return [d.preset.name for d in decisions if isinstance(d, Start)]


def granted(decisions: list[Decision]) -> list[int]:
    return [d.request for d in decisions if isinstance(d, Grant)]


def refused(decisions: list[Decision]) -> dict[int, Refusal]:
    return {d.request: d.refusal for d in decisions if isinstance(d, Reject)}


def codes(decisions: list[Decision]) -> dict[int, str]:
    return {request: str(refusal.code) for request, refusal in refused(decisions).items()}
