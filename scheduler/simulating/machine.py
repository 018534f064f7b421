"""The machine: children that load, answer in their slots, and exit; its memory; its faults.

Loads that run side by side share the disk: each gets on the more slowly, the more there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from scheduler.core.decisions import Reason, Start
from scheduler.core.events import Event, Exited, LoadingReported, ReadyReported
from scheduler.core.sizes import Bytes, DeviceId
from scheduler.core.values import Exit, InstanceId
from scheduler.simulating.memory import smallest

from .figures import Tally
from .workload import Arrival, SimulatedModel, Trace

KILL_SECONDS = 0.1
"""From SIGKILL until the child has been reaped."""
PROGRESS_SECONDS = 60.0
"""A long load says so often that it gets on."""
NEARLY_NOTHING = 1e-9
"""Seconds of reading: less is a rounding error."""
DIES_AT = 0.5
"""The part of its reading after which a load that fails dies."""

_STOPPED = Exit(code=0)
_KILLED = Exit(signal=9)
_CRASHED = Exit(signal=11, words="segmentation fault")
_FAILED = Exit(code=1, words="failed to load the model")
_NO_MEMORY = Exit(code=1, out_of_memory=True, words="failed to allocate buffer")

Handler = Callable[[Any, float], None]
Later = Callable[[float, Handler, Any], None]
"""At this time, call that with this."""


class Ask:
    """One request from its arrival to its end."""

    __slots__ = ("abandoned", "arrival", "begun", "child", "client", "estimate", "over", "request")

    def __init__(self, request: int, arrival: Arrival, client: int) -> None:
        self.request = request
        self.arrival = arrival
        self.client = client  # its number in the trace; -1: none
        self.child: Child | None = None  # since it was granted a lease
        self.begun = -1.0  # when its answer began; before that, negative
        self.over = False  # answered, refused, left or cut
        self.abandoned = False  # left while the child works on
        self.estimate: float | None = None


class Child:
    __slots__ = (
        "asked_to_exit", "asks", "busy", "busy_since", "evicted", "fate", "gone", "id", "line",
        "model", "ready", "slots", "unread",
    )  # fmt: skip

    def __init__(self, id: InstanceId, model: SimulatedModel) -> None:
        self.id = id
        self.model = model
        self.unread = max(0.0, model.load_seconds - model.start_seconds)  # alone on the disk
        self.fate: Exit | None = None  # how its load ends, if not well
        self.slots = max(1, model.spec.parallel)
        self.busy = 0  # slots that answer
        self.busy_since = 0.0
        self.line: deque[Ask] = (
            deque()
        )  # granted, but all slots were busy: llama-server's own queue
        self.asks: dict[int, Ask] = {}  # those granted, by request
        self.ready = False
        self.gone = False
        self.evicted = False
        self.asked_to_exit = False


class Machine:
    """`tell` brings its events to the policy; `lost` is told of each request whose child died."""

    def __init__(
        self,
        trace: Trace,
        tally: Tally,
        later: Later,
        tell: Callable[[Event, float], None],
        lost: Callable[[Ask, float], None],
        answered: Handler,
    ) -> None:
        self.children: dict[InstanceId, Child] = {}
        self._models = {model.spec.name: model for model in trace.models}
        self._capacity = dict(trace.capacity)
        self._held: dict[DeviceId, int] = dict.fromkeys(self._capacity, 0)
        self._reading: dict[InstanceId, Child] = {}  # whose weights come from the disk
        self._read_until = 0.0
        self._readings = 0  # a plan of who is done next is void when there is a newer one
        self._random = Random(f"machine {trace.seed}")
        self._tally = tally
        self._later = later
        self._tell = tell
        self._lost = lost
        self._answered = answered

    # Coming -----------------------------------------------------------------------

    def start(self, start: Start, now: float) -> None:
        model = self._models[start.preset.name]
        child = self.children[start.instance] = Child(start.instance, model)
        self._tally.loads += 1
        if not self._hold(smallest(model.spec)):
            child.fate = _NO_MEMORY
        elif self._random.random() < model.failing:
            child.fate = _FAILED
        if child.fate is not None:
            child.unread *= DIES_AT
        self._later(now + model.start_seconds, self._reads, child)
        self._later(now + PROGRESS_SECONDS, self._progress, child)

    def _reads(self, child: Child, now: float) -> None:
        if not child.gone:
            self._read_on(now)
            self._reading[child.id] = child
            self._plan_reading(now)

    def _read_on(self, now: float) -> None:
        """What has been read since it was last looked at, each its part."""
        if self._reading:
            part = (now - self._read_until) / len(self._reading)
            for child in self._reading.values():
                child.unread -= part
        self._read_until = now

    def _plan_reading(self, now: float) -> None:
        self._readings += 1
        if self._reading:
            least = min(child.unread for child in self._reading.values())
            at = now + max(0.0, least) * len(self._reading)
            self._later(at, self._has_read, self._readings)

    def _has_read(self, reading: int, now: float) -> None:
        if reading != self._readings:
            return  # planned anew since then
        self._read_on(now)
        done = [child for child in self._reading.values() if child.unread <= NEARLY_NOTHING]
        for child in done:
            del self._reading[child.id]
        self._plan_reading(now)
        for child in done:
            if child.fate is not None:
                self._die((child, child.fate), now)
            elif not child.gone:
                self._loaded(child, now)

    def _loaded(self, child: Child, now: float) -> None:
        child.ready = True
        if child.model.crashes:
            at = now + self._random.expovariate(child.model.crashes / 3600.0)
            self._later(at, self._die, (child, _CRASHED))
        if child.asked_to_exit:
            self._later(now + patience_of(child), self._die, (child, _STOPPED))
        self._tell(ReadyReported(child.id), now)

    def _progress(self, child: Child, now: float) -> None:
        if child.gone or child.ready:
            return
        self._read_on(now)
        self._tell(LoadingReported(child.id, 1.0 - child.unread / child.model.load_seconds), now)
        self._later(now + PROGRESS_SECONDS, self._progress, child)

    # Going ------------------------------------------------------------------------

    def stop(self, instance: InstanceId, reason: Reason, now: float, *, kill: bool) -> None:
        """Asked by stdin, which it reads only when it has loaded, or killed."""
        child = self.children.get(instance)
        if child is None:
            return
        if reason is Reason.EVICTED and not child.evicted:
            child.evicted = True
            self._tally.evictions += 1
        if kill:
            self._later(now + KILL_SECONDS, self._die, (child, _KILLED))
        elif child.ready:
            self._later(now + patience_of(child), self._die, (child, _STOPPED))
        else:
            child.asked_to_exit = True

    def _die(self, what: tuple[Child, Exit], now: float) -> None:
        child, exit = what
        if child.gone:
            return
        child.gone = True
        del self.children[child.id]
        if child.id in self._reading:
            self._read_on(now)
            del self._reading[child.id]
            self._plan_reading(now)
        if exit is child.fate:
            self._tally.failed_loads += 1
        if child.busy:
            self._tally.busy_seconds += now - child.busy_since
        self._give_back(smallest(child.model.spec))
        for ask in child.asks.values():
            self._lost(ask, now)
        self._tell(Exited(child.id, exit), now)

    # Memory ---------------------------------------------------------------------

    def _hold(self, need: Bytes) -> bool:
        """Taken from the start to the exit; whether there was so much."""
        for device, amount in need:
            if device in self._held:
                self._held[device] += amount
        return all(self._held[device] <= most for device, most in self._capacity.items())

    def _give_back(self, need: Bytes) -> None:
        for device, amount in need:
            if device in self._held:
                self._held[device] -= amount

    # Slots ----------------------------------------------------------------------

    def take(self, ask: Ask, child: Child, now: float) -> None:
        """A lease was granted: it is answered in a free slot, or waits for one in the child."""
        ask.child = child
        child.asks[ask.request] = ask
        if child.busy < child.slots:
            self._begin(ask, child, now)
        else:
            child.line.append(ask)

    def _begin(self, ask: Ask, child: Child, now: float) -> None:
        if not child.busy:
            child.busy_since = now
        child.busy += 1
        ask.begun = now
        arrival = ask.arrival
        waited = now - arrival.at
        self._tally.waited(arrival.preset, arrival.tenant, waited)
        if ask.estimate is not None:
            self._tally.estimates.append((ask.estimate, waited))
        seconds = arrival.seconds
        if seconds is None:
            seconds = answer_seconds(child.model, arrival, child.busy)
        self._later(now + seconds, self._answered, ask)

    def free(self, ask: Ask, child: Child, now: float) -> None:
        """A slot is idle: the first in the child's own line has it."""
        del child.asks[ask.request]
        child.busy -= 1
        while child.line and child.busy < child.slots:
            following = child.line.popleft()
            if not following.over:
                self._begin(following, child, now)
        if not child.busy:
            self._tally.busy_seconds += now - child.busy_since

    def close(self, now: float) -> None:
        """The trace has ended: what is busy counts up to here."""
        for child in self.children.values():
            if child.busy:
                self._tally.busy_seconds += now - child.busy_since


def patience_of(child: Child) -> float:
    """From being asked to exit until it has, or is killed by its shell."""
    return min(child.model.exit_seconds, child.model.spec.stop_timeout_seconds)


def answer_seconds(model: SimulatedModel, arrival: Arrival, busy: int) -> float:
    """How long an answer takes that begins with so many slots busy, itself among them."""
    slower = 1.0 + model.slowdown * (busy - 1)
    return arrival.read / model.read_speed + slower * arrival.answered / model.answer_speed
