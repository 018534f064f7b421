"""A planner under a full queue, and the simplest world around it: every decision is carried out at
once, and the time that each `handle` takes is kept by the kind of its event."""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import count

from scheduler.core.decisions import (
    AskExit,
    Decision,
    Drain,
    Grant,
    Kill,
    Reject,
    Revoke,
    Start,
    Undrain,
)
from scheduler.core.events import (
    Cancelled,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.planner import Planner
from scheduler.core.values import (
    Config,
    InstanceId,
    PresetName,
    PresetSpec,
    Priority,
    RequestId,
    TenantId,
)

SLOTS = 4
WAITERS = 10
"""For each model."""
TENANTS = 20
TOKENS = 200
SECONDS_BETWEEN_EVENTS = 0.002
EDGE_CASES_EACH = 4

QUEUED = "a request for a queued model"
FIRST = "a request for a model nobody waits for"
AT_ONCE = "a request granted at once"
LEFT = "a waiter leaves"
RELEASED = "a release nobody waits for"
PASSED_ON = "a release, the slot goes to the next"
LAST = "a release, and the model makes way"
EXITED = "an exit, the head starts"
LOADED = "a load finished, its waiters are served"
TICKED = "a second passes"
KINDS = (QUEUED, FIRST, AT_ONCE, LEFT, RELEASED, PASSED_ON, LAST, EXITED, LOADED, TICKED)


@dataclass
class CrowdedPlanner:
    """`models` presets with ten waiters each, and room for `instances` of them. One model is
    pinned and half free; the others take turns, and each is busy while it is there."""

    models: int
    instances: int
    seed: int = 1
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds of each `handle`, by kind."""

    def __post_init__(self) -> None:
        limits = Config(
            models_max=self.instances,
            queue_limit=10**9,
            queue_limit_per_tenant=0,
            queue_wait_seconds=1e9,
        )
        self._planner = Planner(limits)
        self._random = random.Random(self.seed)
        self._now = 0.0
        self._numbers = count(1)
        self._waiting: dict[PresetName, dict[RequestId, None]] = defaultdict(dict)
        self._preset_of: dict[RequestId, PresetName] = {}
        self._held: dict[InstanceId, dict[RequestId, None]] = {}
        self._holder: dict[RequestId, InstanceId] = {}
        self._runs: dict[InstanceId, PresetName] = {}
        self._loading: deque[InstanceId] = deque()
        self._leaving: deque[InstanceId] = deque()
        self._draining: dict[InstanceId, None] = {}
        self._turns: deque[InstanceId] = deque()
        self._fill()

    @property
    def waiters(self) -> int:
        return sum(map(len, self._waiting.values()))

    def run(self, seconds: float) -> None:
        """Cycles for so long; in each of them every kind of event comes at least once."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._cycle()

    # Setting up ---------------------------------------------------------------------------------

    def _fill(self) -> None:
        self._names = [PresetName(f"model-{number:05}") for number in range(self.models)]
        half_free = PresetSpec(self._open, parallel=2 * SLOTS, pinned=True)
        others = [PresetSpec(name, parallel=SLOTS) for name in self._names[1:]]
        self._tell(PresetsChanged((half_free, *others)))
        self._ask(self._open)
        self._settle()
        for name in self._names[1:]:
            for _ in range(WAITERS):
                self._ask(name)
                self._settle()
        self.taken.clear()

    @property
    def _open(self) -> PresetName:
        """The pinned one."""
        return self._names[0]

    # One cycle ----------------------------------------------------------------------------------

    def _cycle(self) -> None:
        for name in self._random.sample(self._names[1:], min(EDGE_CASES_EACH, self.models - 1)):
            request = self._ask(name)
            if request in self._preset_of:
                self._tell(Cancelled(request), LEFT)
                self._forget(request)
            self._settle()
        for _ in range(EDGE_CASES_EACH):
            self._ask(self._open)
            self._release(next(reversed(self._held[self._turn_of(self._open)])))
        self._tell(Ticked(), TICKED)
        self._settle()
        self._change_places()

    def _change_places(self) -> None:
        """One model answers all that wait for it and makes way; then as many wait for it again."""
        victim = next(iter(self._draining), None) or self._turns[0]
        name = self._runs[victim]
        while self._held.get(victim):
            self._release(next(iter(self._held[victim])))
        self._settle()
        for _ in range(WAITERS - len(self._waiting[name])):
            self._ask(name)
            self._settle()

    def _turn_of(self, name: PresetName) -> InstanceId:
        return next(instance for instance, runs in self._runs.items() if runs == name)

    def _ask(self, name: PresetName) -> RequestId:
        request = RequestId(next(self._numbers))
        tenant = self._random.randrange(TENANTS)
        priority = self._random.choices(tuple(Priority), (1, 8, 1))[0]
        was_waited_for = bool(self._waiting[name])
        self._waiting[name][request] = None
        self._preset_of[request] = name
        event = Requested(
            request,
            name,
            self._now,
            tenant=TenantId(f"team-{tenant}"),
            weight=1.0 + tenant % 3,
            priority=priority,
        )
        self._tell(event, QUEUED if was_waited_for else FIRST)
        return request

    def _release(self, request: RequestId) -> None:
        del self._held[self._holder.pop(request)][request]
        self._tell(Released(request, TOKENS), RELEASED)

    def _settle(self) -> None:
        """Children do what they were told: a victim exits, a load finishes."""
        while self._leaving or self._loading:
            if self._leaving:
                instance = self._leaving.popleft()
                self._draining.pop(instance, None)
                del self._runs[instance], self._held[instance]
                self._turns.remove(instance)
                self._tell(Exited(instance), EXITED)
            else:
                self._tell(ReadyReported(self._loading.popleft()), LOADED)

    # Telling, and carrying out ------------------------------------------------------------------

    def _tell(self, event: Event, kind: str = "") -> None:
        self._now += SECONDS_BETWEEN_EVENTS
        began = time.thread_time()
        decisions = self._planner.handle(event, self._now)
        took = time.thread_time() - began
        if kind := _refined(kind, decisions):
            self.taken[kind].append(took)
        for decision in decisions:
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Start(instance, preset):
                self._runs[instance], self._held[instance] = preset.name, {}
                self._loading.append(instance)
                if preset.name != self._open:
                    self._turns.append(instance)
            case Grant(request, instance):
                self._forget(request)
                self._held[instance][request] = None
                self._holder[request] = instance
            case Drain(instance):
                self._draining[instance] = None
            case Undrain(instance):
                self._draining.pop(instance, None)
            case AskExit(instance) | Kill(instance):
                self._leaving.append(instance)
            case Reject() | Revoke():
                raise RuntimeError(f"nobody is refused here: {decision}")

    def _forget(self, request: RequestId) -> None:
        del self._waiting[self._preset_of.pop(request)][request]


def _refined(kind: str, decisions: list[Decision]) -> str:
    """What an event led to says what it was; an exit that starts nothing is not counted."""
    granted = any(isinstance(decision, Grant) for decision in decisions)
    stops = any(isinstance(decision, AskExit) for decision in decisions)
    starts = any(isinstance(decision, Start) for decision in decisions)
    match kind:
        case _ if kind in (QUEUED, FIRST) and granted:
            return AT_ONCE
        case _ if kind == RELEASED and stops:
            return LAST
        case _ if kind == RELEASED and granted:
            return PASSED_ON
        case _ if kind == EXITED and not starts:
            return ""
    return kind
