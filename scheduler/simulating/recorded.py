"""A trace from what a scheduler was told: its event log (`scheduler/runtime/event_log.py`).

Taken from it: who asked for what and when, who left, how long each answer held its lease, how long
loads and exits took. Everything else is decided anew by the policy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from scheduler.core.decisions import AskExit, Decision, Grant, Start
from scheduler.core.events import (
    Cancelled,
    DevicesRead,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
)
from scheduler.core.sizes import Bytes
from scheduler.core.values import InstanceId, Kind, PresetName, PresetSpec, RequestId, TenantId
from scheduler.simulating.memory import as_capacity

from .workload import FOREVER, Arrival, SimulatedModel, SimulatedTenant, Trace

Told = tuple[float, Event, Sequence[Decision]]
"""When the core was told what, and what it decided."""

LOAD_SECONDS = 10.0
EXIT_SECONDS = 0.5
ANSWER_SECONDS = 5.0
"""Where the log does not say."""
GRACE_SECONDS = 3600.0

_REQUESTS = frozenset({Kind.POST, Kind.WEBSOCKET})


class NothingRecorded(Exception):
    """No request stands in the log."""


@dataclass(slots=True)
class _Heard:
    """What the log says, as it is read."""

    specs: dict[PresetName, PresetSpec]
    capacity: Bytes = ()
    asked: dict[RequestId, tuple[float, Requested]] = field(default_factory=dict)
    granted: dict[RequestId, float] = field(default_factory=dict)
    left: dict[RequestId, float] = field(default_factory=dict)
    held: dict[RequestId, float] = field(default_factory=dict)
    tokens: dict[RequestId, int] = field(default_factory=dict)
    preset_of: dict[InstanceId, PresetName] = field(default_factory=dict)
    started: dict[InstanceId, float] = field(default_factory=dict)
    told_to_go: dict[InstanceId, float] = field(default_factory=dict)
    loads: dict[PresetName, list[float]] = field(default_factory=lambda: defaultdict(list))
    exits: dict[PresetName, list[float]] = field(default_factory=lambda: defaultdict(list))

    def hear(self, at: float, event: Event, decisions: Iterable[Decision]) -> None:
        match event:
            case Requested(request, kind=kind) if kind in _REQUESTS:
                self.asked.setdefault(request, (at, event))
            case Cancelled(request) if request in self.asked:
                self._end(request, at)
            case Released(request, tokens) if request in self.asked:
                self._end(request, at)
                self.tokens[request] = tokens or 0
            case ReadyReported(instance) if instance in self.started:
                self.loads[self.preset_of[instance]].append(at - self.started.pop(instance))
            case Exited(instance) if instance in self.told_to_go:
                self.exits[self.preset_of[instance]].append(at - self.told_to_go.pop(instance))
            case PresetsChanged(presets):
                self.specs.update({spec.name: spec for spec in presets})
            case DevicesRead(devices):
                self.capacity = as_capacity(devices)
            case _:
                pass
        for decision in decisions:
            self._decided(at, decision)

    def _end(self, request: RequestId, at: float) -> None:
        granted = self.granted.get(request)
        if granted is None:
            self.left[request] = at
        else:
            self.held.setdefault(request, at - granted)

    def _decided(self, at: float, decision: Decision) -> None:
        match decision:
            case Grant(request):
                self.granted.setdefault(request, at)
            case Start(instance, spec):
                self.preset_of[instance] = spec.name
                self.started[instance] = at
            case AskExit(instance) if instance in self.preset_of:
                self.told_to_go.setdefault(instance, at)
            case _:
                pass


def recorded_trace(
    name: str, presets: Iterable[PresetSpec], told: Iterable[Told], *, places: int, seed: int = 1
) -> Trace:
    """Raises NothingRecorded."""
    heard = _Heard({spec.name: spec for spec in presets})
    for at, event, decisions in told:
        heard.hear(at, event, decisions)
    asked = [(at, event) for at, event in heard.asked.values() if event.preset in heard.specs]
    if not asked:
        raise NothingRecorded(f"{name}: no request stands in it")
    tenants = _tenants(event for _, event in asked)
    numbers = {tenant.name: number for number, tenant in enumerate(tenants)}
    arrivals = _arrivals(heard, asked, numbers)
    return Trace(
        name,
        f"recorded: {len(arrivals)} requests in {arrivals[-1].at:.0f} seconds",
        _models(heard, arrivals),
        tenants,
        lambda: arrivals,
        until=arrivals[-1].at + GRACE_SECONDS,
        places=places,
        capacity=heard.capacity,
        seed=seed,
    )


def _tenants(events: Iterator[Requested]) -> tuple[SimulatedTenant, ...]:
    """As they last were."""
    found: dict[TenantId, SimulatedTenant] = {}
    for event in events:
        found[event.tenant] = SimulatedTenant(event.tenant, event.weight, event.priority)
    return tuple(found.values())


def _arrivals(
    heard: _Heard, asked: list[tuple[float, Requested]], numbers: dict[TenantId, int]
) -> list[Arrival]:
    by_preset: dict[PresetName, list[float]] = defaultdict(list)
    for request, seconds in heard.held.items():
        by_preset[heard.asked[request][1].preset].append(seconds)
    usual = {preset: median(seconds) for preset, seconds in by_preset.items()}
    first = asked[0][0]
    arrivals = []
    for at, event in asked:
        left = heard.left.get(event.request)
        seconds = heard.held.get(event.request, usual.get(event.preset, ANSWER_SECONDS))
        arrivals.append(
            Arrival(
                at - first,
                event.preset,
                numbers[event.tenant],
                answered=heard.tokens.get(event.request, 0),
                patience=FOREVER if left is None else left - at,
                seconds=seconds,
            )
        )
    return sorted(arrivals, key=lambda arrival: arrival.at)


def _models(heard: _Heard, arrivals: list[Arrival]) -> tuple[SimulatedModel, ...]:
    """The most asked for first."""
    asked: dict[PresetName, int] = defaultdict(int)
    for arrival in arrivals:
        asked[arrival.preset] += 1
    return tuple(
        SimulatedModel(
            spec,
            _usual(heard.loads[spec.name], spec.load_seconds or LOAD_SECONDS),
            exit_seconds=_usual(heard.exits[spec.name], EXIT_SECONDS),
        )
        for spec in sorted(heard.specs.values(), key=lambda spec: (-asked[spec.name], spec.name))
    )


def _usual(seconds: list[float], otherwise: float) -> float:
    return median(seconds) if seconds else otherwise
