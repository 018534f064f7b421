"""The scheduler itself: one event in, a list of decisions out.

No clock, no I/O, no randomness: the same events give the same decisions, so a recorded log of
events is a complete bug report. Whatever the event, every step ends by deriving grants, head, room
and timers anew, so that an event that was lost heals with the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from . import leaving
from .admission import Admission
from .decisions import Decision, Grant, Reason, Reject, Revoke
from .events import (
    Abandoned,
    ApplyAsked,
    Cancelled,
    Event,
    Exited,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    ShutdownAsked,
    SleepingReported,
    SlotsSeen,
    Ticked,
    UnloadAsked,
)
from .failures import Failure, Failures, failed_to_load
from .instances import Fleet, Instance
from .states import Cue, State
from .timers import Timer, deadlines
from .values import (
    Code,
    Config,
    Exit,
    InstanceId,
    Kind,
    PresetName,
    PresetSpec,
    Refusal,
    RequestId,
)
from .wait_queue import Waiter, WaitQueue

ASK_AGAIN_SECONDS = 5.0
"""What a client is told to wait when nothing better is known."""

_USES = frozenset({Kind.POST, Kind.WEBSOCKET})
_UNDONE_BY_AN_EDIT = frozenset({Reason.REPLACED, Reason.REMOVED})


@dataclass(frozen=True, slots=True)
class QueuedPreset:
    """An entry as others may see it; `oldest` is when its first waiter arrived."""

    preset: PresetName
    waiters: int
    oldest: float


class Planner:
    """Owns all scheduling state. The shell may read `instances`, `entries()` and `failures`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.presets: dict[PresetName, PresetSpec] = {}
        self.shutting_down = False
        self._fleet = Fleet()
        self._queue = WaitQueue(config.queue_wait_seconds)
        self._failures = Failures(config)
        self._admission = Admission(config, self.presets, self._fleet, self._queue, self._failures)
        self._timer = Timer()

    @property
    def instances(self) -> Mapping[InstanceId, Instance]:
        return self._fleet.instances

    @property
    def failures(self) -> Mapping[PresetName, Failure]:
        return self._failures.view

    def entries(self) -> list[QueuedPreset]:
        """In the order of the queue."""
        return [
            QueuedPreset(entry.preset, len(entry), entry.first.arrived)
            for entry in self._queue.in_order()
        ]

    def handle(self, event: Event, now: float) -> list[Decision]:
        decisions = self._note(event, now)
        decisions += self._end_stalled_loads(now)
        decisions += leaving.kill_overdue(self._fleet, now)
        decisions += leaving.stop_drained(self._fleet, now)
        decisions += leaving.replace_stale(self._fleet, now)
        decisions += self._serve(now)
        expiry = self._queue.next_expiry()
        if expiry is not None and expiry <= now:
            decisions += self._refuse_those_who_waited_too_long(now) + self._serve(now)
            expiry = self._queue.next_expiry()
        dues = deadlines(self._fleet, self.config.load_stall_seconds)
        return decisions + self._timer.set(dues if expiry is None else (expiry, *dues), now)

    # What an event changes ------------------------------------------------------

    def _note(self, event: Event, now: float) -> list[Decision]:
        match event:
            case Requested():
                return self._join(event, now)
            case Cancelled(request) | Released(request):
                return self._end(request)
            case Abandoned(request):
                return self._abandon(request)
            case LoadingReported() | ReadyReported() | SleepingReported() | SlotsSeen() | Exited():
                instance = self._fleet.instances.get(event.instance)
                return [] if instance is None else self._hear(instance, event, now)
            case PresetsChanged(presets, renamed):
                return self._take_over(presets, dict(renamed), now)
            case UnloadAsked(preset, force):
                return self._unload(preset, now, force=force)
            case ApplyAsked(preset):
                return self._apply(preset, now)
            case ShutdownAsked():
                return self._shut_down()
            case Ticked():
                return []
            case _:
                assert_never(event)

    def _hear(
        self,
        instance: Instance,
        event: LoadingReported | ReadyReported | SleepingReported | SlotsSeen | Exited,
        now: float,
    ) -> list[Decision]:
        """What a living child did. An event about any other comes too late, and is harmless."""
        match event:
            case LoadingReported(_, progress):
                if instance.child is not State.LOADING:
                    instance.load_begins(now)
                instance.advance(Cue.LOADING)
                instance.note_progress(progress, now)
            case ReadyReported():
                self._note_ready(instance, now)
            case SleepingReported():
                self._note_asleep(instance)
            case SlotsSeen(_, busy):
                self._end_abandoned(instance, busy)
            case Exited(_, exit):
                return self._bury(instance, exit, now)
        return []

    # Requests -------------------------------------------------------------------

    def _join(self, event: Requested, now: float) -> list[Decision]:
        if event.request in self._queue or event.request in self._fleet.leases:
            return []
        if refusal := self._refusal_at_the_door(event, now):
            return [Reject(event.request, refusal)]
        if event.kind is Kind.LOAD:
            # A4: a person's load clears the back-off.
            self._failures.clear(event.preset)
        self._queue.join(event.request, event.preset, event.kind, event.arrived, now)
        return []

    def _refusal_at_the_door(self, event: Requested, now: float) -> Refusal | None:
        if self.shutting_down:
            return Refusal(Code.SHUTTING_DOWN, ASK_AGAIN_SECONDS)
        if event.preset not in self.presets:
            return Refusal(Code.MODEL_NOT_FOUND)
        current = self._fleet.current(event.preset)
        failure = self._failures.backing_off(event.preset, now)
        if failure is not None and current is None and event.kind is not Kind.LOAD:
            # A4: nothing is evicted meanwhile for a load that would fail again.
            return Refusal(Code.MODEL_BACKING_OFF, failure.until - now, failure.exit)
        served_at_once = current is not None and (
            current.has_free_slot if event.kind in _USES else current.state is State.LOADED
        )
        if len(self._queue) >= self.config.queue_limit and not served_at_once:
            return Refusal(Code.QUEUE_FULL, ASK_AGAIN_SECONDS)
        return None

    def _end(self, request: RequestId) -> list[Decision]:
        """A9: it leaves at once, as a waiter or with its lease; harmless when it is over."""
        if self._queue.leave(request) is None:
            self._fleet.end_lease(request)
        return []

    def _abandon(self, request: RequestId) -> list[Decision]:
        instance = self._fleet.leases.get(request)
        if instance is None:
            return self._end(request)
        instance.abandoned.add(request)
        return []

    # Children -------------------------------------------------------------------

    def _note_ready(self, instance: Instance, now: float) -> None:
        before = instance.state
        instance.advance(Cue.READY)
        if instance.state is State.LOADED and before is not State.LOADED:
            instance.last_used = now
            # A3: with nobody left who wanted it, it is first in line to go.
            instance.unwanted = instance.idle and instance.preset.name not in self._queue.entries
        if not instance.leaving:
            # A4: a load that succeeded ends the row of failures.
            self._failures.clear(instance.preset.name)

    def _note_asleep(self, instance: Instance) -> None:
        """L8: under a lease this releases nothing; and nobody is granted a sleeper."""
        instance.advance(Cue.ASLEEP)
        instance.beside = False

    def _end_abandoned(self, instance: Instance, busy: int) -> None:
        """Abandoned leases end as the busy slots fall below the leases, the oldest first."""
        over = max(0, len(instance.leases) - max(0, busy))
        for request in sorted(instance.abandoned)[:over]:
            self._fleet.end_lease(request)

    def _bury(self, instance: Instance, exit: Exit, now: float) -> list[Decision]:
        """Its slot is free only now. Leases on it are over; whether it failed to load is A4's."""
        self._fleet.remove(instance)
        decisions: list[Decision] = []
        for request in sorted(instance.leases):
            self._fleet.end_lease(request)
            decisions.append(Revoke(request, instance.id))
        if failed_to_load(instance, exit):
            decisions += self._fail_load(instance.preset.name, exit, now)
        instance.advance(Cue.EXIT)
        return decisions

    def _end_stalled_loads(self, now: float) -> list[Decision]:
        """A load or a wake that does not get on holds a loader that others wait for: it is killed,
        and has failed."""
        decisions, patience = list[Decision](), self.config.load_stall_seconds
        for instance in self._fleet:
            due = instance.stalls_at(patience)
            if due is None or due > now:
                continue
            was_wanted = not instance.leaving
            decisions.append(leaving.kill(instance, Reason.LOAD_STALLED))
            if was_wanted:
                exit = Exit(signal=9, words=f"no progress for {patience:g} s while loading")
                decisions += self._fail_load(instance.preset.name, exit, now)
        return decisions

    def _fail_load(self, preset: PresetName, exit: Exit, now: float) -> list[Decision]:
        """A4: out of memory keeps its place, three loads in all; else all its waiters are told."""
        code = Code.MODEL_LOAD_FAILED
        if exit.out_of_memory:
            if self._failures.may_retry_out_of_memory(preset):
                if entry := self._queue.entries.get(preset):
                    entry.evict_first = True
                return []
            code = Code.OUT_OF_MEMORY
        failure = self._failures.record(preset, code, exit, now)
        worth_asking_again = failure.until - now if exit.out_of_memory else None
        return self._refuse_all(preset, Refusal(code, worth_asking_again, exit))

    # Orders ---------------------------------------------------------------------

    def _take_over(
        self, presets: Iterable[PresetSpec], renamed: Mapping[PresetName, PresetName], now: float
    ) -> list[Decision]:
        """The registry has changed. What runs with other options than its preset now has is stale:
        it serves until nobody reads from it, or until that is asked for (ApplyAsked)."""
        edited = {spec.name: spec for spec in presets}
        decisions: list[Decision] = []
        for name, old in sorted(self.presets.items()):
            new = edited.get(name)
            if new is None and (renamed_to := renamed.get(name)) in edited:
                self._follow(name, renamed_to, now)
            elif new is None:
                decisions += self._refuse_all(name, Refusal(Code.MODEL_REMOVED))
            if new is None or new.fingerprint != old.fingerprint:
                # What failed was not this.
                self._failures.clear(name)
        self.presets.clear()
        self.presets.update(edited)
        for instance in self._fleet:
            decisions += self._compare_with_its_preset(instance, now)
        for instance in self._fleet:
            if self._may_undrain(instance):
                decisions.append(leaving.undrain(instance))
        return decisions

    def _follow(self, name: PresetName, renamed_to: PresetName, now: float) -> None:
        """Who waits keeps its place; what failed under the new name before was not this."""
        if self._queue.move(name, renamed_to, now):
            self._failures.clear(renamed_to)

    def _compare_with_its_preset(self, instance: Instance, now: float) -> list[Decision]:
        spec = self.presets.get(instance.preset.name)
        instance.stale = not instance.runs(spec)
        if spec is not None and not instance.stale:
            instance.preset = spec
        if not instance.stale or instance.leaving or (spec is not None and instance.busy):
            return []
        return [leaving.leave(instance, Reason.REMOVED if spec is None else Reason.REPLACED, now)]

    def _apply(self, preset: PresetName, now: float) -> list[Decision]:
        return [
            leaving.leave(instance, Reason.REPLACED, now)
            for instance in self._fleet.of(preset)
            if instance.stale and not instance.leaving
        ]

    def _may_undrain(self, instance: Instance) -> bool:
        """Only an edit undoes a drain, and only what an edit (not a person's unload) began."""
        return (
            instance.state is State.DRAINING
            and not instance.stale
            and instance.reason in _UNDONE_BY_AN_EDIT
            and self._fleet.current(instance.preset.name) is None
        )

    def _unload(self, preset: PresetName, now: float, *, force: bool) -> list[Decision]:
        """A load under way is cancelled, and its waiters are told. Those of a loaded instance keep
        their place, and wait for a new one."""
        decisions: list[Decision] = []
        current = self._fleet.current(preset)
        if current is not None and current.state is State.LOADING:
            decisions += self._refuse_all(preset, Refusal(Code.UNLOADED))
        for instance in self._fleet.of(preset):
            if instance.state is State.STOPPING:
                continue
            if force:
                decisions.append(leaving.ask_exit(instance, Reason.UNLOADED, now))
            elif instance.reason is not Reason.UNLOADED:
                decisions.append(leaving.leave(instance, Reason.UNLOADED, now))
        return decisions

    def _shut_down(self) -> list[Decision]:
        """With nobody waiting nothing starts, and the door lets nobody in. Idle instances stay:
        the shell ends the children itself, when the answers are done."""
        self.shutting_down = True
        decisions: list[Decision] = []
        for entry in self._queue.in_order():
            decisions += self._refuse_all(
                entry.preset, Refusal(Code.SHUTTING_DOWN, ASK_AGAIN_SECONDS)
            )
        return decisions

    # Serving the queue ------------------------------------------------------------

    def _serve(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        for entry in list(self._queue.entries.values()):
            decisions += self._grant_all_that_fit(entry.preset, now)
        decisions += self._admission.admit(now)
        self._run_clocks(now)
        return decisions

    def _grant_all_that_fit(self, preset: PresetName, now: float) -> list[Decision]:
        """In the step in which the instance is ready: no window in which it looks idle."""
        instance = self._fleet.current(preset)
        if instance is None or instance.state is not State.LOADED:
            return []
        decisions: list[Decision] = []
        entry = self._queue.entries[preset]
        while waiter := entry.loads.first():
            decisions.append(self._grant(waiter, instance, now))
        while instance.has_free_slot and (waiter := entry.requests.first()):
            decisions.append(self._grant(waiter, instance, now))
        return decisions

    def _grant(self, waiter: Waiter, instance: Instance, now: float) -> Grant:
        self._queue.leave(waiter.request)
        instance.unwanted = False
        if waiter.kind in _USES:
            instance.last_used = now
            self._fleet.take_lease(waiter.request, instance)
        return Grant(waiter.request, instance.id)

    def _refuse_all(self, preset: PresetName, refusal: Refusal) -> list[Decision]:
        return [Reject(waiter.request, refusal) for waiter in self._queue.drop(preset)]

    # Time -------------------------------------------------------------------------

    def _run_clocks(self, now: float) -> None:
        """A7: an entry's clock stands while it is loaded for, or room is made for it."""
        for entry in self._queue.entries.values():
            current = self._fleet.current(entry.preset)
            loads = current is not None and current.state is State.LOADING
            entry.let_clock_run(now, runs=not loads and entry.room is None)

    def _refuse_those_who_waited_too_long(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        refusal = Refusal(Code.QUEUE_TIMEOUT, ASK_AGAIN_SECONDS)
        for entry in list(self._queue.entries.values()):
            while len(entry) and (due := entry.next_expiry()) and due[0] <= now:
                self._queue.leave(due[1].request)
                decisions.append(Reject(due[1].request, refusal))
        return decisions
