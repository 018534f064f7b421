"""The scheduler's rules, checked on the event log of one life: what it was told and what it did.

A second reading of the rules, on purpose simpler than the scheduler's own: who lives, who is
loaded, who holds a lease, who waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.core.decisions import (
    AskExit,
    Decision,
    Drain,
    Grant,
    Kill,
    Reason,
    Reject,
    Revoke,
    Start,
    Undrain,
    Wake,
)
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    Event,
    Exited,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    SleepingReported,
    SlotsSeen,
)
from scheduler.core.values import Config, InstanceId, Kind, PresetName, PresetSpec, RequestId
from scheduler.runtime.event_log import Header, Step, read_life

HOLD_NO_SLOT = (Kind.LOAD, Kind.STARTUP, Kind.GET)


@dataclass
class _Child:
    preset: PresetSpec
    loaded: bool = False
    draining: bool = False
    stopping: bool = False
    leases: dict[RequestId, bool] = field(default_factory=dict)
    """Whether somebody still reads it."""

    @property
    def busy(self) -> bool:
        return any(self.leases.values())


@dataclass
class Life:
    """`broken` names each rule that was broken, and at which line."""

    path: Path
    steps: int = 0
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)
    decided: Counter[str] = field(default_factory=Counter)
    longest_wait: float = 0.0

    def __post_init__(self) -> None:
        self._config = Config()
        self._children: dict[InstanceId, _Child] = {}
        self._kinds: dict[RequestId, Kind] = {}
        self._waiting: dict[RequestId, float] = {}
        self._pinned: dict[PresetName, bool] = {}
        self._line = 0

    def check(self) -> None:
        began = 0.0
        for _, line in read_life(self.path):
            if isinstance(line, Header):
                began = began or line.now
                self._config = line.config
            elif isinstance(line, Step):
                self._line = line.number
                self.steps, self.seconds = self.steps + 1, line.now - began
                self._happen(line.event)
                for decision in line.decisions:
                    self.decided[type(decision).__name__] += 1
                    self.broken += [f"line {self._line}: {rule}" for rule in self._do(decision)]
                    self._note_wait(decision, line.now)
            else:
                self.broken.append(f"line {line.number}: {line.lost} steps are missing")

    def _note_wait(self, decision: Decision, now: float) -> None:
        if isinstance(decision, Grant | Reject):
            arrived = self._waiting.pop(decision.request, now)
            self.longest_wait = max(self.longest_wait, now - arrived)

    def _child(self, instance: InstanceId) -> _Child:
        """Of one that is gone already: an empty one."""
        return self._children.get(instance, _Child(PresetSpec(PresetName(""))))

    # What happens -------------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        match event:
            case Requested(request, _, arrived, kind):
                self._kinds[request] = kind
                self._waiting[request] = arrived
            case Cancelled(request):
                self._waiting.pop(request, None)
                self._end(request)
            case Released(request):
                self._end(request)
            case Abandoned(request):
                self._abandon(request)
            case PresetsChanged(presets):
                self._pinned = {preset.name: preset.pinned for preset in presets}
            case _:
                self._hear(event)

    def _hear(self, event: Event) -> None:
        match event:
            case ReadyReported(instance):
                self._child(instance).loaded = True
            case LoadingReported(instance) | SleepingReported(instance):
                self._child(instance).loaded = False
            case SlotsSeen(instance, busy):
                self._see_slots(self._child(instance), busy)
            case Exited(instance):
                self._children.pop(instance, None)

    def _abandon(self, request: RequestId) -> None:
        for child in self._children.values():
            if request in child.leases:
                child.leases[request] = False

    def _end(self, request: RequestId) -> None:
        for child in self._children.values():
            child.leases.pop(request, None)

    def _see_slots(self, child: _Child, busy: int) -> None:
        """Abandoned leases beyond the busy slots have ended."""
        over = max(0, len(child.leases) - max(0, busy))
        abandoned = sorted(request for request, read in child.leases.items() if not read)
        for request in abandoned[:over]:
            del child.leases[request]

    # What is done: which rules it breaks --------------------------------------------------------

    def _do(self, decision: Decision) -> Iterator[str]:
        match decision:
            case Grant(request, instance):
                yield from self._grant(request, instance)
            case Revoke(request):
                self._end(request)
            case Reject(request) if request not in self._waiting:
                yield f"request {request} is refused and does not wait"
            case _:
                yield from self._move(decision)

    def _move(self, decision: Decision) -> Iterator[str]:
        match decision:
            case Start(instance, preset):
                yield from self._start(instance, preset)
            case Wake(instance):
                yield from self._wake(self._child(instance), instance)
            case Drain(instance):
                self._child(instance).draining = True
            case Undrain(instance):
                yield from self._undrain(self._child(instance), instance)
            case AskExit(instance, reason) | Kill(instance, reason):
                yield from self._stop(instance, reason)

    def _start(self, instance: InstanceId, preset: PresetSpec) -> Iterator[str]:
        current = [c for c in self._children.values() if c.preset.name == preset.name]
        if any(not child.draining and not child.stopping for child in current):
            yield f"a second instance of {preset.name} starts"
        self._children[instance] = _Child(preset)
        if 0 < self._config.models_max < len(self._children):
            yield f"{len(self._children)} instances, of {self._config.models_max} (A5)"

    def _undrain(self, child: _Child, instance: InstanceId) -> Iterator[str]:
        child.draining = False
        if child.stopping:
            yield f"instance {instance} is asked to exit, and taken back (A3)"

    def _wake(self, child: _Child, instance: InstanceId) -> Iterator[str]:
        if child.draining or child.stopping:
            yield f"instance {instance} leaves, and is woken"

    def _grant(self, request: RequestId, instance: InstanceId) -> Iterator[str]:
        if request not in self._waiting:
            yield f"request {request} is granted and does not wait"
        child = self._children.get(instance)
        if child is None:
            yield f"request {request} is granted instance {instance}, which is gone"
            return
        if not child.loaded or child.stopping or child.draining:
            yield f"request {request} is granted instance {instance}: {child}"
        if self._kinds.get(request) not in HOLD_NO_SLOT:
            child.leases[request] = True
            limit = max(1, int(child.preset.parallel * self._config.oversubscribe))
            if len(child.leases) > limit:
                yield f"instance {instance} has {len(child.leases)} leases, of {limit} (A8)"

    def _stop(self, instance: InstanceId, reason: Reason) -> Iterator[str]:
        child = self._child(instance)
        child.stopping = True
        if reason in (Reason.EVICTED, Reason.IDLE, Reason.UNWANTED):
            if child.busy:
                yield f"instance {instance} is stopped ({reason}) while it answers (V1)"
            if self._pinned.get(child.preset.name):
                yield f"instance {instance} is pinned, and stopped ({reason}) (V1)"
