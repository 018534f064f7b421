"""What happens to presets, told to those who have subscribed: a state, a step of a load, an end.

While nobody listens it costs nothing. What is told is the preset's whole state as it then is, so
whoever misses one is right again with the next; and nothing is told twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from scheduler.core.decisions import AskExit, Decision, Drain, Kill, Start, Undrain, Wake
from scheduler.core.events import Event, RemoteHeard, Requested, Ticked
from scheduler.core.values import InstanceId, PresetName
from scheduler.protocol import Happened

from .activity import Activity
from .snapshot import failure_of, instance_state

if TYPE_CHECKING:
    from .instance_run import InstanceRun
    from .owner import Owner

Listener = Callable[[Happened], None]

PROGRESS_EVERY_SECONDS = 0.2
"""Between two steps of one load, as llama.cpp's router tells them."""

_OF_INSTANCES = (Start, Wake, Drain, Undrain, AskExit, Kill)

_State = tuple[object, ...]


@dataclass(slots=True)
class _Told:
    """What was told of a preset last."""

    state: _State
    progress: float
    at: float


class Happenings:
    def __init__(self, owner: Owner) -> None:
        self.life = token_hex(4)
        """Numbers are of one life of the scheduler."""
        self._owner = owner
        self._listeners: dict[int, Listener] = {}
        self._ids = itertools.count(1)
        self._number = 0
        self._told: dict[PresetName, _Told] = {}
        self._waiting: set[PresetName] = set()
        """Those of which it was told last that somebody waits for them."""
        self._activity = Activity(owner)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tells the number of the last one first; call what is returned to hear no more."""
        id = next(self._ids)
        if not self._listeners:
            self._take_in_what_is()
        self._listeners[id] = listener
        listener(Happened(self.life, self._number))

        def leave() -> None:
            self._listeners.pop(id, None)
            if not self._listeners:
                self._told.clear()
                self._waiting.clear()

        return leave

    def _take_in_what_is(self) -> None:
        """Told is what comes from now on."""
        now = self._owner.clock()
        self._activity.take_in(now)
        names = {instance.preset.name for instance in self._owner.planner.instances.values()}
        for name in (
            names | self._owner.planner.remotes.keys() | self._owner.planner.failures.keys()
        ):
            self._told[name] = _Told(*self._state(name), now)

    # In the owner's turn -------------------------------------------------------------------

    def after_step(
        self, event: Event, decisions: Sequence[Decision], ended: InstanceRun | None
    ) -> None:
        """`ended` is the run whose exit the step was about."""
        if not self._listeners:
            return
        names = dict.fromkeys(self._concerned(event, decisions))
        if ended is not None:
            self._tell_ended(PresetName(ended.spec.preset), ended)
            names.pop(PresetName(ended.spec.preset), None)
        for name in names:
            self.tell(name)
        if self._activity.changed(self._owner.clock()):
            self._send(Happened(self.life, self._number, activity=True))

    def registry_read(self, revision: int, gone: Iterable[str]) -> None:
        if self._listeners:
            self._send(Happened(self.life, self._next(), revision=revision, gone=sorted(gone)))

    def tell(self, name: PresetName) -> None:
        """Its state, unless it was told already, or is another step of a load that was told of a
        moment ago."""
        if not self._listeners:
            return
        now = self._owner.clock()
        state, progress = self._state(name)
        told = self._told.get(name)
        if told is not None and told.state == state:
            soon = now - told.at < PROGRESS_EVERY_SECONDS and progress < 1.0
            if progress == told.progress or soon:
                return
        self._told[name] = _Told(state, progress, now)
        self._send(self._happened(name))

    def _concerned(self, event: Event, decisions: Sequence[Decision]) -> Iterable[PresetName]:
        runs = self._owner.runs
        if isinstance(event, Requested):
            yield event.preset
        elif isinstance(event, RemoteHeard):
            if (asked := self._owner.waiting.get(event.request)) is not None:
                yield PresetName(asked.preset)
        elif isinstance(event, Ticked):
            yield from list(self._waiting)
        elif isinstance(number := getattr(event, "instance", None), int) and number in runs:
            yield PresetName(runs[InstanceId(number)].spec.preset)
        for decision in decisions:
            if isinstance(decision, _OF_INSTANCES) and decision.instance in runs:
                yield PresetName(runs[decision.instance].spec.preset)

    def _tell_ended(self, name: PresetName, ended: InstanceRun) -> None:
        state, progress = self._state(name)
        self._told[name] = _Told(state, progress, self._owner.clock())
        self._send(self._happened(name, ended))

    def _state(self, name: PresetName) -> tuple[_State, float]:
        """What makes a difference, and how far a load is."""
        planner = self._owner.planner
        instances = planner.instances_of(name)
        states = tuple((i.id, i.state, i.stale, i.allocated is not None) for i in instances)
        waits = not instances and planner.waits_for(name) and name not in planner.remotes
        if waits:
            self._waiting.add(name)
        else:
            self._waiting.discard(name)
        failure = planner.failures.get(name)
        progress = max((i.progress for i in instances), default=-1.0)
        failed_at = None if failure is None else failure.failed_at
        remote = name in planner.remotes
        return (states, remote, waits, failed_at, self._measuring(name)), progress

    def _measuring(self, name: PresetName) -> bool:
        spec = self._owner.planner.presets.get(name)
        return spec is not None and spec.measuring

    def _happened(self, name: PresetName, ended: InstanceRun | None = None) -> Happened:
        owner = self._owner
        now = owner.clock()
        return Happened(
            self.life,
            self._next(),
            preset=name,
            instances=[
                state
                for instance in owner.planner.instances_of(name)
                if (state := instance_state(owner, instance, now)) is not None
            ],
            remote=name in owner.planner.remotes,
            queued=name in self._waiting,
            measuring=self._measuring(name),
            failure=failure_of(owner, name, now),
            ended=None if ended is None else ended.ended,
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _send(self, happened: Happened) -> None:
        for listener in list(self._listeners.values()):
            listener(happened)
