"""Ollama's scheduler (`server/sched.go` of v0.33), as the reference notes `ollama.md` describe it.

§1.2: a request for a resident model runs at once, without any bound; every other one goes to a
FIFO of OLLAMA_MAX_QUEUE (512), full: 503. §1.3: the pending loop works on one request until it
runs or fails, and looks at nothing else meanwhile: a load is waited for inside it, and so is the
unload of a victim; a load ends with the client that caused it, and the next in line begins it
anew; a client that has left is noticed only when its turn comes; any unload wakes the loop, which
then looks again. A busy victim stays resident and takes new requests. §1.4: nothing needs a
reload here (all clients send the same options). §1.5: keep-alive, 5 minutes by default, from the
moment in which the last request ends. §1.6: unloaded by SIGKILL. §1.7: the victim is an idle one
in the order of keep-alive, then of the path of its blob (`sha256-…`, so in no order of use); if
none is idle, the first, which goes when it becomes idle. §1.8: a failed load fails the one
request that caused it.

In its favour: the wait for VRAM to come back (up to 5 s) takes no time, nor do its locks; the
default of one slot (OLLAMA_NUM_PARALLEL) and of three resident models are set to what the trace
says; clients send no keep_alive of their own, so that a busy victim keeps its keep-alive of 0 and
goes in the moment in which it is idle (`clients_send_keep_alive` shows the other case, which
hangs: §1.3, #17408); what fits into memory is known exactly, and all of it may be used (§1.9
leaves a fifth free).
"""

from __future__ import annotations

from collections import deque
from hashlib import sha256

from scheduler.core.decisions import Decision, Grant, Reason, Reject, WakeAt
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    DevicesRead,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.sizes import DeviceId
from scheduler.core.values import Code, Exit, InstanceId, PresetName, PresetSpec, Refusal, RequestId
from scheduler.simulating.memory import as_capacity, smallest

from .common import Runners, Running, fits, kill

FOREVER = float("inf")


class Ollama:
    def __init__(
        self,
        max_loaded_models: int = 3,
        *,
        max_queue: int = 512,
        keep_alive: float = 300.0,
        clients_send_keep_alive: bool = False,
    ) -> None:
        self._max_loaded = max_loaded_models
        self._max_queue = max_queue
        self._keep_alive = keep_alive
        self._clients_send_keep_alive = clients_send_keep_alive
        self._specs: dict[PresetName, PresetSpec] = {}
        self._blobs: dict[PresetName, str] = {}
        self._capacity: dict[DeviceId, int] = {}
        self._runners = Runners()
        self._kept: dict[InstanceId, float] = {}  # keep-alive; 0: goes when idle
        self._expires: dict[InstanceId, float] = {}
        self._leases: dict[RequestId, Running] = {}
        self._pending: deque[Requested] = deque()
        self._gone: set[RequestId] = set()  # left, and the loop has not come to them
        self._at_work: Requested | None = None  # what the pending loop works on
        self._loads: Running | None = None  # for it
        self._awaits_unload = False  # any unload: it does not ask whose

    def handle(self, event: Event, now: float) -> list[Decision]:
        match event:
            case Requested():
                return self._get_runner(event, now)
            case Released(request) | Abandoned(request):
                return self._finished(request, now)
            case Cancelled(request):
                return self._left(request, now)
            case ReadyReported(instance):
                return self._ready(self._runners.by_instance[instance], now)
            case Exited(instance, exit):
                return self._exited(self._runners.exited(instance), exit, now)
            case PresetsChanged(presets):
                self._specs = {spec.name: spec for spec in presets}
                self._blobs = {spec.name: blob_of(spec.name) for spec in presets}
            case DevicesRead(devices):
                self._capacity = dict(as_capacity(devices))
            case Ticked():
                return self._expire(now)
            case _:
                pass
        return []

    # The way of a request ---------------------------------------------------------

    def _get_runner(self, event: Requested, now: float) -> list[Decision]:
        if event.preset not in self._specs:
            return [Reject(event.request, Refusal(Code.MODEL_NOT_FOUND))]
        if runner := self._resident(event.preset):
            return [self._use(event, runner)]
        if len(self._pending) >= self._max_queue:
            return [Reject(event.request, Refusal(Code.QUEUE_FULL))]
        self._pending.append(event)
        return self._work(now)

    def _resident(self, preset: PresetName) -> Running | None:
        runner = self._runners.by_preset.get(preset)
        usable = runner is not None and runner.ready and not runner.stopping
        return runner if usable else None

    def _use(self, event: Requested, runner: Running) -> Grant:
        runner.leases += 1
        self._expires.pop(runner.instance, None)
        if self._clients_send_keep_alive:
            self._kept[runner.instance] = self._keep_alive
        self._leases[event.request] = runner
        return Grant(event.request, runner.instance)

    def _finished(self, request: RequestId, now: float) -> list[Decision]:
        runner = self._leases.pop(request, None)
        if runner is None:
            return []
        runner.leases -= 1
        if runner.leases or runner.stopping:
            return []
        keep = self._kept[runner.instance]
        if keep <= 0:
            return [self._unload(runner)]
        self._expires[runner.instance] = now + keep
        return [WakeAt(min(self._expires.values()))]

    def _left(self, request: RequestId, now: float) -> list[Decision]:
        if request in self._leases:
            return self._finished(request, now)
        self._gone.add(request)
        at_work = self._at_work
        if self._loads and at_work and at_work.request == request and not self._loads.stopping:
            # The load is tied to the first one's connection.
            return [kill(self._loads, Reason.UNWANTED)]
        return []

    # The pending loop ---------------------------------------------------------------

    def _work(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        while not self._blocked():
            if self._at_work is None:
                if not self._pending:
                    break
                self._at_work = self._pending.popleft()
            decisions += self._try(self._at_work, now)
        return decisions

    def _blocked(self) -> bool:
        return self._loads is not None or self._awaits_unload

    def _try(self, event: Requested, now: float) -> list[Decision]:
        """One pass of the loop over what it works on."""
        if event.request in self._gone:
            self._gone.discard(event.request)
            self._at_work = None
            return []
        if runner := self._resident(event.preset):
            self._at_work = None
            return [self._use(event, runner)]
        spec = self._specs[event.preset]
        running = self._runners.by_preset.values()
        full = 0 < self._max_loaded <= len(running)
        if full or (running and not fits(smallest(spec), running, self._capacity)):
            return self._evict_for(event)
        start = self._runners.start(spec, now)
        self._loads = self._runners.by_preset[event.preset]
        self._kept[self._loads.instance] = self._keep_alive
        return [start]

    def _evict_for(self, event: Requested) -> list[Decision]:
        self._awaits_unload = True
        leaving = any(runner.stopping for runner in self._runners.by_preset.values())
        victim = self._victim()
        if leaving or victim is None:
            return []
        self._expires.pop(victim.instance, None)
        self._kept[victim.instance] = 0.0
        return [] if victim.leases else [self._unload(victim, event.preset)]

    def _victim(self) -> Running | None:
        """An idle one in the order of keep-alive, then of the blob; else the first, busy or not."""
        candidates = sorted(
            (runner for runner in self._runners.by_preset.values() if not runner.stopping),
            key=lambda runner: (self._kept[runner.instance], self._blobs[runner.spec.name]),
        )
        idle = (runner for runner in candidates if not runner.leases)
        return next(idle, candidates[0] if candidates else None)

    # Unloads ------------------------------------------------------------------------

    def _unload(self, runner: Running, for_preset: PresetName | None = None) -> Decision:
        self._expires.pop(runner.instance, None)
        if for_preset is None and self._awaits_unload and self._at_work:
            for_preset = self._at_work.preset
        reason = Reason.IDLE if for_preset is None else Reason.EVICTED
        return kill(runner, reason, for_preset)

    def _expire(self, now: float) -> list[Decision]:
        due = [instance for instance, at in self._expires.items() if at <= now]
        decisions = [self._unload(self._runners.by_instance[instance]) for instance in due]
        if self._expires:
            decisions.append(WakeAt(min(self._expires.values())))
        return decisions

    def _ready(self, runner: Running, now: float) -> list[Decision]:
        runner.ready = True
        decisions: list[Decision] = []
        if runner is self._loads and self._at_work is not None and not runner.stopping:
            decisions.append(self._use(self._at_work, runner))
            self._at_work = self._loads = None
        return decisions + self._work(now)

    def _exited(self, runner: Running | None, exit: Exit, now: float) -> list[Decision]:
        if runner is None:
            return []
        self._expires.pop(runner.instance, None)
        self._kept.pop(runner.instance, None)
        self._leases = {r: held for r, held in self._leases.items() if held is not runner}
        self._awaits_unload = False
        decisions: list[Decision] = []
        if runner is self._loads and self._at_work is not None:
            self._loads = None
            if self._at_work.request not in self._gone:
                failed = Refusal(Code.MODEL_LOAD_FAILED, exit=exit)
                decisions.append(Reject(self._at_work.request, failed))
                self._at_work = None
        return decisions + self._work(now)


def blob_of(preset: PresetName) -> str:
    """Where its weights lie: a name that says nothing of what is in it."""
    return "sha256-" + sha256(preset.encode()).hexdigest()
