"""llama.cpp's own router (`server_lru_sched` in `server-models.cpp` of b11434), as the reference
notes `llamacpp_router.md` describe it.

§5.1: the queue is FIFO by the first waiter of each model; requests for a loaded model never
queue; `tick` evicts idle least recently used models while queued entries outnumber free places;
only the head may load, and stays head until its waiters have their model. §5.2: `models_max`
counts what loads, is loaded or stops. §5.5: no busy model is evicted. §5.6: no bound on a wait
(1), no queue limit and no wait time-out (3), only the head may claim (4), a broken model evicts
others at every attempt, without a back-off (12), a load runs on when its waiters have gone (14).

§5.3, for a newer source (memory): the head's victims go one by one in LRU order, whether they
help or not, until it fits; with nothing running it is loaded all the same.

In its favour: its polls (200 ms) take no time; the race between "ready" and the first byte (§5.6,
2) is left out; who joined a load under way finds its model protected from eviction as the head's
waiters do; memory is counted exactly, and nothing grows into it (§5.6, 7).
"""

from __future__ import annotations

from scheduler.core.decisions import Decision, Grant, Reason, Reject
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
)
from scheduler.core.sizes import DeviceId
from scheduler.core.values import Code, Exit, PresetName, PresetSpec, Refusal, RequestId
from scheduler.simulating.memory import as_capacity, smallest

from .common import Runners, Running, ask_exit, fits


class LlamaCppRouter:
    def __init__(self, models_max: int = 4) -> None:
        self._models_max = models_max
        self._specs: dict[PresetName, PresetSpec] = {}
        self._capacity: dict[DeviceId, int] = {}
        self._runners = Runners()
        self._queue: dict[PresetName, bool] = {}  # in the order of joining; whether it is claimed
        self._waiters: dict[PresetName, dict[RequestId, None]] = {}
        self._waits_for: dict[RequestId, PresetName] = {}
        self._leases: dict[RequestId, Running] = {}

    def handle(self, event: Event, now: float) -> list[Decision]:
        match event:
            case Requested():
                return self._join(event, now)
            case Released(request) | Cancelled(request) | Abandoned(request):
                return self._end(request, now)
            case ReadyReported(instance):
                return self._ready(self._runners.by_instance[instance], now)
            case Exited(instance, exit):
                return self._exited(self._runners.exited(instance), exit, now)
            case PresetsChanged(presets):
                self._specs = {spec.name: spec for spec in presets}
            case DevicesRead(devices):
                self._capacity = dict(as_capacity(devices))
            case _:
                pass
        return []

    # Requests -------------------------------------------------------------------

    def _join(self, event: Requested, now: float) -> list[Decision]:
        preset = event.preset
        if preset not in self._specs:
            return [Reject(event.request, Refusal(Code.MODEL_NOT_FOUND))]
        runner = self._runners.by_preset.get(preset)
        if runner is not None and runner.ready and not runner.stopping:
            return [self._grant(event.request, runner, now)]
        self._waiters.setdefault(preset, {})[event.request] = None
        self._waits_for[event.request] = preset
        if runner is None or runner.stopping:
            self._queue.setdefault(preset, False)
        return self._turn(now)

    def _grant(self, request: RequestId, runner: Running, now: float) -> Grant:
        runner.leases += 1
        runner.last_used = now
        self._leases[request] = runner
        return Grant(request, runner.instance)

    def _end(self, request: RequestId, now: float) -> list[Decision]:
        runner = self._leases.pop(request, None)
        if runner is not None:
            runner.leases -= 1
            return self._turn(now) if not runner.leases and self._queue else []
        preset = self._waits_for.pop(request, None)
        if preset is None:
            return []
        del self._waiters[preset][request]
        if not self._waiters[preset]:
            del self._waiters[preset]
            self._queue.pop(preset, None)
        return self._turn(now)

    # Children -------------------------------------------------------------------

    def _ready(self, runner: Running, now: float) -> list[Decision]:
        preset = runner.spec.name
        runner.ready = True
        self._queue.pop(preset, None)
        decisions: list[Decision] = []
        for request in self._waiters.pop(preset, {}):
            del self._waits_for[request]
            decisions.append(self._grant(request, runner, now))
        return decisions + self._turn(now)

    def _exited(self, runner: Running | None, exit: Exit, now: float) -> list[Decision]:
        if runner is None:
            return []
        self._leases = {r: held for r, held in self._leases.items() if held is not runner}
        decisions: list[Decision] = []
        preset = runner.spec.name
        if not runner.ready and not runner.stopping:
            self._queue.pop(preset, None)
            for request in self._waiters.pop(preset, {}):
                del self._waits_for[request]
                decisions.append(Reject(request, Refusal(Code.MODEL_LOAD_FAILED, exit=exit)))
        return decisions + self._turn(now)

    # The queue ------------------------------------------------------------------

    def _turn(self, now: float) -> list[Decision]:
        if not self._queue:
            return []
        return self._tick() + self._claim(now)

    def _tick(self) -> list[Decision]:
        """Idle models go while queued entries outnumber free places."""
        decisions: list[Decision] = []
        if self._models_max <= 0:
            return decisions
        running = self._runners.by_preset.values()
        stopping = sum(runner.stopping for runner in running)
        claimed = sum(
            claimed and preset not in self._runners.by_preset
            for preset, claimed in self._queue.items()
        )
        free = self._models_max - len(running) + stopping - claimed
        needed = sum(not claimed for claimed in self._queue.values())
        while free < needed and (victim := self._victim()):
            decisions.append(ask_exit(victim, Reason.EVICTED, next(iter(self._queue))))
            free += 1
        return decisions

    def _victim(self) -> Running | None:
        """The least recently used of those without requests, and without an entry of their own."""
        idle = (
            runner
            for runner in self._runners.by_preset.values()
            if runner.ready
            and not runner.leases
            and not runner.stopping
            and runner.spec.name not in self._queue
        )
        return min(idle, key=lambda runner: (runner.last_used, runner.spec.name), default=None)

    def _claim(self, now: float) -> list[Decision]:
        """The head loads when there is a place and memory; nobody else."""
        preset, claimed = next(iter(self._queue.items()))
        if claimed or preset in self._runners.by_preset:
            return []
        if 0 < self._models_max <= len(self._runners):
            return []
        spec = self._specs[preset]
        running = list(self._runners.by_preset.values())
        if running and not fits(smallest(spec), running, self._capacity):
            if any(runner.stopping for runner in running):
                return []
            victim = self._victim()
            return [] if victim is None else [ask_exit(victim, Reason.EVICTED, preset)]
        self._queue[preset] = True
        return [self._runners.start(spec, now)]
