"""llama-swap's group router (`internal/router` of v250), as the reference notes `llama_swap.md`
describe it.

§3.2: a group holds one model at a time (`swap`), groups do not touch each other (`exclusive`
off); nothing knows memory, nor least recently used. §3.3, in this order: over the limit of
outstanding requests for a model, waiting ones included: 429; a load of the same model under way
is joined; loaded and nobody is about to stop it: served at once, without any bound; what another
swap is moving, or a model with requests in flight, is waited for; else the swap begins: the
group's model is stopped, then the new one started; swaps of different groups run side by side.
The queue is in order of arrival, looked through at every end of a swap and whenever a model has
become idle. §3.4: no ageing and no longest wait; a failed load fails all that joined it, leaves
nothing running and is tried again at once; a load whose clients have left runs to its end.

In its favour: `models_max` places become as many groups, with the models dealt out to them in the
order of how often they are asked for, as an administrator would who knows that beforehand (the
default is one group: one model at a time); the readiness probe (§3.5, half a second on average)
takes no time; the limit of outstanding requests (10 by default, 429 above it) is off unless it is
given.
"""

from __future__ import annotations

from scheduler.core.decisions import Decision, Grant, Reason, Reject
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
)
from scheduler.core.values import Code, Exit, PresetName, PresetSpec, Refusal, RequestId

from .common import Runners, Running, ask_exit

DEFAULT_LIMIT = 10


class Swap:
    """One group's model on its way out, and the next on its way in."""

    __slots__ = ("spec", "waiters")

    def __init__(self, spec: PresetSpec) -> None:
        self.spec = spec
        self.waiters: dict[RequestId, None] = {}


class LlamaSwap:
    """`groups` 0: as many as there are models."""

    def __init__(self, groups: int = 1, *, limit: int = 0) -> None:
        self._groups = groups
        self._limit = limit
        self._specs: dict[PresetName, PresetSpec] = {}
        self._group: dict[PresetName, int] = {}
        self._runners = Runners()
        self._member: dict[int, Running] = {}  # what runs in a group
        self._swaps: dict[int, Swap] = {}
        self._queues: dict[int, dict[RequestId, PresetName]] = {}  # by group, in order of arrival
        self._waits_for: dict[RequestId, PresetName] = {}
        self._leases: dict[RequestId, Running] = {}
        self._outstanding: dict[PresetName, int] = {}

    def handle(self, event: Event, now: float) -> list[Decision]:
        match event:
            case Requested():
                return self._request(event, now)
            case Released(request) | Cancelled(request) | Abandoned(request):
                return self._end(request, now)
            case ReadyReported(instance):
                return self._ready(self._runners.by_instance[instance], now)
            case Exited(instance, exit):
                return self._exited(self._runners.exited(instance), exit, now)
            case PresetsChanged(presets):
                self._specs = {spec.name: spec for spec in presets}
                groups = self._groups or len(presets)
                self._group = {spec.name: i % groups for i, spec in enumerate(presets)}
            case _:
                pass
        return []

    def _request(self, event: Requested, now: float) -> list[Decision]:
        preset = event.preset
        if preset not in self._specs:
            return [Reject(event.request, Refusal(Code.MODEL_NOT_FOUND))]
        outstanding = self._outstanding.get(preset, 0)
        if 0 < self._limit <= outstanding:
            return [Reject(event.request, Refusal(Code.MODEL_QUEUE_FULL, 1.0))]
        self._outstanding[preset] = outstanding + 1
        decisions = self._decide(event.request, preset, now)
        if decisions is None:
            self._queues.setdefault(self._group[preset], {})[event.request] = preset
            self._waits_for[event.request] = preset
            return []
        return decisions

    def _decide(self, request: RequestId, preset: PresetName, now: float) -> list[Decision] | None:
        """The rules of §3.3, from the third on; None: it has to wait."""
        group = self._group[preset]
        swap, member = self._swaps.get(group), self._member.get(group)
        if swap is not None:
            if swap.spec.name != preset:
                return None
            swap.waiters[request] = None
            self._waits_for[request] = preset
            return []
        if member is not None and member.spec.name == preset:
            return [self._grant(request, member)]
        if member is not None and member.leases:
            return None
        swap = self._swaps[group] = Swap(self._specs[preset])
        swap.waiters[request] = None
        self._waits_for[request] = preset
        if member is None:
            return [self._load(group, swap, now)]
        return [ask_exit(member, Reason.EVICTED, preset)]

    def _load(self, group: int, swap: Swap, now: float) -> Decision:
        start = self._runners.start(swap.spec, now)
        self._member[group] = self._runners.by_preset[swap.spec.name]
        return start

    def _grant(self, request: RequestId, runner: Running) -> Grant:
        runner.leases += 1
        self._leases[request] = runner
        return Grant(request, runner.instance)

    def _end(self, request: RequestId, now: float) -> list[Decision]:
        runner = self._leases.pop(request, None)
        if runner is not None:
            preset = runner.spec.name
            self._outstanding[preset] -= 1
            runner.leases -= 1
            return [] if runner.leases else self._drain_queue(self._group[preset], now)
        waited_for = self._waits_for.pop(request, None)
        if waited_for is not None:
            group = self._group[waited_for]
            self._outstanding[waited_for] -= 1
            self._queues.get(group, {}).pop(request, None)
            if group in self._swaps:
                self._swaps[group].waiters.pop(request, None)
        return []

    def _drain_queue(self, group: int, now: float) -> list[Decision]:
        queue = self._queues.get(group)
        if not queue:
            return []
        decisions: list[Decision] = []
        for request, preset in list(queue.items()):
            decided = self._decide(request, preset, now)
            if decided is None:
                continue
            del queue[request]
            if self._leases.get(request) is not None:
                del self._waits_for[request]
            decisions += decided
        return decisions

    def _ready(self, runner: Running, now: float) -> list[Decision]:
        runner.ready = True
        group = self._group[runner.spec.name]
        decisions: list[Decision] = []
        for request in self._swaps.pop(group).waiters:
            del self._waits_for[request]
            decisions.append(self._grant(request, runner))
        return decisions + self._drain_queue(group, now)

    def _exited(self, runner: Running | None, exit: Exit, now: float) -> list[Decision]:
        if runner is None:
            return []
        preset = runner.spec.name
        group = self._group[preset]
        del self._member[group]
        lost = [request for request, held in self._leases.items() if held is runner]
        for request in lost:
            del self._leases[request]
            self._outstanding[preset] -= 1
        swap = self._swaps.get(group)
        if swap is not None and runner.stopping:
            return [self._load(group, swap, now)]
        decisions: list[Decision] = []
        if swap is not None:
            del self._swaps[group]
            for request in swap.waiters:
                del self._waits_for[request]
                self._outstanding[preset] -= 1
                decisions.append(Reject(request, Refusal(Code.MODEL_LOAD_FAILED, exit=exit)))
        return decisions + self._drain_queue(group, now)
