"""The one owner of the planner: an inbox, a loop, and decisions carried out.

Everybody else posts. What is posted is handled in its order, one at a time, so nothing here needs a
lock. A bug in it, or in the task of a child, ends the process loudly: half a scheduler is worse
than none, and its children end with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

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
    WakeAt,
)
from scheduler.core.events import (
    AllocationReported,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    ShutdownAsked,
    Ticked,
)
from scheduler.core.planner import Planner
from scheduler.core.sizes import Grant as MemoryGrant
from scheduler.core.sizes import OpenShape
from scheduler.core.states import State
from scheduler.core.values import InstanceId, PresetName, PresetSpec, Refusal, RequestId
from scheduler.tally import Tally

from .ending import BeforeExit, exit_after, killed_in_time
from .figures import Figures
from .happenings import Happenings
from .inbox import Inbox
from .instance_run import InstanceRun, News, Told
from .limiting import Limiting
from .measures import Look, Measures
from .memory import why_there
from .memory_side import Memory
from .news import log_news
from .offer import Offer
from .record import Allocated, Decided, Gone, Loaded, Record, Started
from .remote_run import RemoteRun
from .tallied_record import TalliedRecord
from .unstartable import refuse_for_what_cannot_start
from .waiting import Waiting

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0
SHORTEST_WAIT_SECONDS = 0.002

_USABLE = frozenset({State.LOADING, State.LOADED, State.SLEEPING})

Do = Callable[[], None]
MakeRun = Callable[[InstanceId, PresetName, MemoryGrant, Told], InstanceRun]


Figured = Iterable[tuple[str, str | int | float]]
Renamed = tuple[tuple[PresetName, PresetName], ...]
Note = Callable[[float, Event, Sequence[Decision]], None]
"""Takes each step of the core: when, what it was told, what it decided."""


class Owner:
    """`run()` is the task. Everything without an underscore may be called from the event loop."""

    def __init__(
        self,
        planner: Planner,
        *,
        make_run: MakeRun,
        wake: Callable[[InstanceRun], Awaitable[None]],
        clock: Callable[[], float],
        record: Record,
        note: Note | None = None,
        measures: Measures | None = None,
        limiting: Limiting | None = None,
    ) -> None:
        self.planner = planner
        self.runs: dict[InstanceId, InstanceRun] = {}
        self.offer = Offer()
        self.figures = Figures()
        self.waiting = Waiting()
        self.limiting = limiting or Limiting(clock)
        self.shutting_down = False
        self.clock = clock
        self._make_run = make_run
        self._wake = wake
        self.tally = Tally()
        self.record: Record = TalliedRecord(record, self.tally)
        self._note = note
        self.memory = Memory(self, measures, record)
        self.happenings = Happenings(self)
        self.before_exit: list[BeforeExit] = []
        self.buried: list[Callable[[InstanceRun], None]] = []
        self.stepped: list[Callable[[Sequence[Decision]], None]] = []
        self._told_specs: tuple[PresetSpec, ...] = ()
        self._inbox: Inbox[Event | Do] = Inbox()
        self._ending = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: float | None = None
        self._wake_at: float | None = None
        self._sides: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until `stop()` was called and every child is reaped; or until a bug ends it."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._set_alarm(self.clock())
                while not self._ending or self.runs:
                    if not self._inbox.items:
                        await self._inbox.wait()
                    item = self._inbox.items.popleft()
                    if callable(item):
                        item()
                    else:
                        self.handle(item)
                for side in self._sides:
                    side.cancel()  # nothing that it could still wait for will happen
        finally:
            if self._alarm is not None:
                self._alarm.cancel()

    def post(self, item: Event | Do) -> None:
        """To be handled after everything that was posted before."""
        self._inbox.put(item)

    async def caught_up(self) -> None:
        """Returns when everything posted so far has been handled."""
        done = asyncio.Event()
        self.post(done.set)
        await done.wait()

    def stop(self) -> None:
        """Ask every child to exit, kill those that do not in time. Called again: kill at once."""
        self.post(self._end)

    def offer_changed(self, offer: Offer) -> None:
        """The registry as it now is. Taken in its turn, so that a start uses one state of it."""

        def take() -> None:
            before, self.offer = self.offer, offer.after(self.offer)
            self.memory.offer_changed()
            refuse_for_what_cannot_start(self)
            self.tell_presets(offer.renamed_since(before))
            gone = before.specs.keys() - self.offer.specs.keys()
            self.happenings.registry_read(offer.revision, gone)

        self.post(take)

    def shapes_changed(self, look: Look) -> None:
        """What measurements and estimates now say."""

        def take() -> None:
            self.figures.keep_read(look.specs, look.figures)
            self.figures.keep_shapes(look.shapes)
            if self.offer.known:
                self.tell_presets()

        self.post(take)

    def is_running(self, preset: str) -> bool:
        """Whether an instance of it takes requests, or will."""
        instances = self.planner.instances_of(PresetName(preset))
        return any(instance.state in _USABLE for instance in instances)

    def tell_presets(self, renamed: Renamed = ()) -> None:
        specs = self.offer.preset_specs(self.figures.shape_of)
        if specs != self._told_specs or renamed:
            before = {spec.name: spec.measuring for spec in self._told_specs}
            self._told_specs = specs
            self.handle(PresetsChanged(specs, renamed))
            for spec in specs:
                if spec.measuring is not before.get(spec.name, False):
                    self.happenings.tell(spec.name)

    def learn_load_seconds(self, seconds: Mapping[str, float]) -> None:
        """How long presets took to load in earlier lives, as far as that is known."""

        def learn() -> None:
            self.offer = replace(self.offer, load_seconds=seconds)
            if self.offer.known:
                self.tell_presets()

        self.post(learn)

    def handle(self, event: Event) -> None:
        """Only from within the loop's turn: by `run`, or by what was posted to it."""
        now = self.clock()
        if isinstance(event, Ticked):
            self._alarm_at = None
        if isinstance(event, ShutdownAsked):
            self.shutting_down = True
        ended = self._bury(event.instance) if isinstance(event, Exited) else None
        decisions: Sequence[Decision] = ()
        try:
            decisions = self.planner.handle(event, now)
        finally:
            if self._note is not None:
                self._note(now, event, decisions)  # also the event that shows a bug in the core
        for decision in decisions:
            self._carry_out(decision)
        for told in self.stepped:
            told(decisions)
        self.memory.after_step(now)
        self.limiting.after_step(event, decisions, self.waiting)
        self.happenings.after_step(event, decisions, ended)
        self._set_alarm(now)

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """A side task of the owner: a bug in it ends the owner too. Cancelled at the end."""
        task = self._tasks.create_task(work, name=name)
        self._sides.add(task)
        task.add_done_callback(self._sides.discard)

    # Decisions ------------------------------------------------------------------------------

    def _carry_out(self, decision: Decision) -> None:  # noqa: C901 - one row per decision
        match decision:
            case Grant(request, instance):  # by far the most are
                self.waiting.granted(request, self.runs.get(instance) or self._remote(instance))
            case Start(instance, preset, reason, figures, grant):
                self._start(instance, preset.name, grant, reason, figures)
            case Wake(instance):
                self._write("wake", instance, Reason.REQUESTED)
                run = self.runs[instance]
                self.begin(self._woken(run), f"wake-{instance}")
            case Drain(instance, reason, for_preset, figures):
                self._write("drain", instance, reason, for_preset, figures)
                self._tell_draining(instance, draining=True)
            case Undrain(instance, reason):
                self._write("undrain", instance, reason)
                self._tell_draining(instance, draining=False)
            case AskExit(instance, reason, for_preset, figures):
                self._write("ask_exit", instance, reason, for_preset, figures)
                self._ask_exit(self._leave(instance, reason))
            case Kill(instance, reason, for_preset, figures):
                self._write("kill", instance, reason, for_preset, figures)
                self._leave(instance, reason).kill()
            case Reject(request, refusal):
                self._reject(request, refusal)
            case Revoke(request, instance):
                logger.debug("lease %d ends with instance %d", request, instance)
            case WakeAt(when):
                self._wake_at = when  # the last one said is the one that holds
            case _:
                assert_never(decision)

    def _tell_draining(self, instance: InstanceId, *, draining: bool) -> None:
        drained = self.planner.instances.get(instance)
        if drained is not None:
            self.waiting.tell_draining(drained.leases, draining=draining)

    def _start(
        self,
        instance: InstanceId,
        preset: PresetName,
        grant: MemoryGrant,
        reason: Reason,
        figures: Figured,
    ) -> None:
        run = self._make_run(instance, preset, grant, self._told)
        known = self.figures.shape_of(run.spec)
        shape = known.shape if known is not None else None
        has_devices = not isinstance(shape, OpenShape) or bool(shape.devices)
        run.why = why_there(grant, figures, has_devices=has_devices)
        self.runs[instance] = run
        measured = "" if known is None or known.estimated else run.spec.memory_fingerprint
        revision = self.offer.revision
        self.record(Started(instance, preset, revision, grant, measured, run.began))
        self._write("start", instance, reason, figures=figures)
        task = self._tasks.create_task(run.run(), name=f"instance-{instance}")
        # Unlike a finally, it also runs for a task that was cancelled before its first step.
        task.add_done_callback(lambda _: self.post(Exited(instance, run.exit_for_clients)))

    def _remote(self, instance: InstanceId) -> RemoteRun:
        remotes = self.planner.remotes.items()
        name = next(name for name, remote in remotes if remote.id == instance)
        return RemoteRun(instance, self.offer.specs[name])

    def _reject(self, request: RequestId, refusal: Refusal) -> None:
        asked = self.waiting.rejected(request, refusal, self.offer.names())
        if asked is None:
            return  # nobody waits for it any more
        figures = {
            "retry_after": refusal.retry_after_seconds,
            "blocked_by": list(refusal.blocked_by),
            "short": dict(refusal.short),
            "granted": dict(refusal.granted),
        }
        figures = {name: figure for name, figure in figures.items() if figure}
        self.record(Decided("reject", asked.preset, None, str(refusal.code), figures))
        code = refusal.code
        logger.info("refuse a request for %s: %s", asked.preset, code, extra=asked.in_the_log)

    def _leave(self, instance: InstanceId, reason: Reason) -> InstanceRun:
        run = self.runs[instance]
        if run.leaving is None:  # a kill after its stop time-out is the end of the same leaving
            run.leaving = reason
        return run

    def _ask_exit(self, run: InstanceRun) -> None:
        works = [work for before in self.before_exit if (work := before(run)) is not None]
        if works:
            self.begin(exit_after(works, run), f"before-exit-{run.instance}")
        else:
            run.ask_exit()

    def _bury(self, instance: InstanceId) -> InstanceRun:
        run = self.runs.pop(instance)
        run.over.set()
        for told in self.buried:
            told(run)
        self.memory.something_exited()
        self.record(Gone(instance, run.pid, run.argv, run.end_reason, run.exit))
        return run

    async def _woken(self, run: InstanceRun) -> None:
        """Until it has woken, or has gone: a dead child answers nobody."""
        waking = asyncio.ensure_future(self._wake(run))
        over = asyncio.ensure_future(run.over.wait())
        try:
            await asyncio.wait({waking, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
            over.cancel()
        await asyncio.gather(waking, over, return_exceptions=True)

    def _told(self, run: InstanceRun, news: News) -> None:
        if isinstance(news, AllocationReported):
            self.record(Allocated(run.instance, news.need))
        if isinstance(news, ReadyReported):
            self.record(Loaded(run.instance, run.pid, run.argv))
        log_news(run, news)
        # Its exit is posted after its last line, but by another task: it may have been handled.
        self.post(lambda: self.handle(news) if run.instance in self.runs else None)

    def _write(
        self,
        kind: str,
        instance: InstanceId,
        reason: Reason,
        for_preset: PresetName | None = None,
        figures: Figured = (),
    ) -> None:
        run = self.runs[instance]
        shown: dict[str, object] = {"for": str(for_preset)} if for_preset else {}
        shown.update(figures)
        self.record(Decided(kind, run.spec.preset, instance, str(reason), shown))
        for_whom = f" for {for_preset}" if for_preset else ""
        logger.info("%s %s: %s%s", kind.replace("_", " "), run.name, reason, for_whom)

    # Time and the end -----------------------------------------------------------------------

    def _set_alarm(self, now: float) -> None:
        """Ticked when the core asked for it, and after HEARTBEAT_SECONDS in any case."""
        due = now + HEARTBEAT_SECONDS
        if self._wake_at is not None and self._wake_at > now:
            due = min(due, self._wake_at)
        if self._alarm_at is not None and self._alarm_at <= due:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        delay = max(SHORTEST_WAIT_SECONDS, due - now)
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(delay, self.post, Ticked())

    def _end(self) -> None:
        if self._ending:
            logger.warning("asked to stop again: %d children are killed", len(self.runs))
            for run in self.runs.values():
                run.kill()
            return
        self._ending = True
        self.handle(ShutdownAsked())
        for run in list(self.runs.values()):
            logger.info("ask exit %s: %s", run.name, Reason.SHUTDOWN)
            run.leaving = run.leaving or Reason.SHUTDOWN
            self._ask_exit(run)
            self.begin(
                killed_in_time(run, self.offer.stop_timeout_seconds(run.spec)),
                f"stop-{run.instance}",
            )
