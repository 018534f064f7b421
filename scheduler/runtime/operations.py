"""What can be asked of the scheduler, each as one method; control.py puts it on the wire.

Every method returns at once and takes effect in the owner's turn, in the order of the calls.
Replies come by callback, in that turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count

import msgspec

from models_registry.allowing import Allowed
from scheduler.core.events import (
    ApplyAsked,
    KeepWished,
    Requested,
    ShutdownAsked,
    UnloadAsked,
)
from scheduler.core.values import Kind, PresetName, Priority, RequestId, TenantId
from scheduler.protocol import (
    Acquire,
    Counted,
    CountedState,
    DevicesState,
    Explained,
    Fit,
    FitAnswer,
    Granted,
    Happened,
    Keep,
    Measured,
    Refused,
    SnapshotState,
    Try,
    Unload,
    Waiters,
    WaitersPage,
)

from .conversations import Conversations
from .conversing import Conversing
from .explaining import explained, waiters
from .figure_sums import FigureSums
from .fitting import fit_answer
from .instance_run import InstanceRun
from .kv_saves.child_slots import ChildSlots
from .kv_saves.keeping import KvSaves
from .lease_ends import LeaseEnds
from .load_waits import load_wait
from .memory import device_states
from .owner import Owner
from .read_ahead import ReadAhead
from .refusals import refusal_of, request_unknown
from .remote_run import refuse_remote
from .replies import grant_of
from .resolving import Resolving
from .snapshot import snapshot
from .trials import Trials
from .waiting import Answer, Asked, Run

logger = logging.getLogger(__name__)

_KINDS = {kind.value: kind for kind in Kind}
_PRIORITIES = {priority.name.lower(): priority for priority in Priority}
"""By their words on the wire. The enumerations' own look-up takes as long as the rest."""


def say_refused(answer: Run | Refused) -> None:
    """Of a load that nobody waits for."""
    if isinstance(answer, Refused):
        logger.warning("not loaded: %s", answer.message)


class Operations:
    def __init__(
        self,
        owner: Owner,
        *,
        models_max: int,
        autoload: bool = True,
        answer_seconds: float = 3600.0,
        measured: Callable[[], None] = lambda: None,
        conversations: Conversations,
        saves: KvSaves | None = None,
        read_ahead: ReadAhead | None = None,
    ) -> None:
        """`measured` is called when a measure job has told that it is done."""
        self._owner = owner
        self._resolving = Resolving(owner)
        self._measured = measured
        self.saves = saves or KvSaves(owner, ChildSlots())
        self._read_ahead = read_ahead or ReadAhead(owner, is_on=False)
        self.leases = LeaseEnds(owner, conversations, answer_seconds, self.saves)
        self.conversations = conversations
        self.conversing = Conversing(owner, conversations)
        self.sums = FigureSums(owner)
        self._models_max = models_max
        self._jobs_beat: float | None = None
        self._autoload = autoload
        self._ids = count(1)
        self.trials = Trials(owner, self._ids, self._load_again)
        self.leases.ended.append(self.trials.over)

    def acquire(
        self, asked: Acquire, answer: Answer, draining: Callable[[bool], None] | None = None
    ) -> RequestId:
        """`answer` is called once, unless the request is cancelled before; `draining` whenever the
        instance that it was granted begins to drain, or drains no more."""
        request = RequestId(next(self._ids))
        arrived = self._owner.clock() - max(0.0, asked.age)

        def admit() -> None:
            limiting, offer = self._owner.limiting, self._owner.offer
            try:
                preset = self._resolving.asked(
                    asked.preset,
                    asked.own,
                    allowed=asked.allowed,
                    autoload=asked.autoload and self._autoload,
                )
                limiting.come_in(request, asked, offer.specs.get(preset), offer)
                if asked.conversation:
                    self.conversations.begin(asked, preset, request, arrived)
            except Refused as refusal:
                limiting.refund(request)
                answer(refusal)
                return
            kind, tenant = _KINDS[asked.kind], TenantId(asked.tenant)
            priority = _PRIORITIES[asked.priority]
            known = Asked(
                preset,
                granted,
                kind,
                arrived,
                tenant,
                priority,
                asked.request,
                draining=draining,
            )
            self._owner.waiting.add(request, known)
            self._owner.handle(
                Requested(
                    request, preset, arrived, kind, tenant, asked.weight, priority, asked.sticky
                )
            )
            if self._owner.waiting.waits(request):
                self._read_ahead.wanted(preset)

        def granted(got: Run | Refused) -> None:
            if (known := self._owner.waiting.get(request)) is not None:
                known.granted_at = self._owner.clock()
            if isinstance(got, InstanceRun) and asked.kind != "get":
                self.saves.given(got, asked.tenant)
            self.conversations.answered(request, got)
            answer(got)

        self._owner.post(admit)
        return request

    def granted(self, request: RequestId, run: Run, asked: Acquire | Try) -> Granted:
        """As the registry now is: an edit counts at once, also for what runs already."""
        if isinstance(asked, Try):
            loading = load_wait(self._owner, request, run)
            return grant_of(request, run, run.spec, run.spec.preset, loading)
        offer = self._owner.offer
        spec = offer.specs.get(run.spec.preset, run.spec)
        named, loading = offer.meant(asked.preset, asked.own), load_wait(self._owner, request, run)
        granted = grant_of(request, run, spec, named, loading)
        stream, rate = self.conversations.key_of(request), self._owner.limiting.rate(request)
        if not stream and rate is None:
            return granted
        return msgspec.structs.replace(granted, stream=stream, rate=rate)

    def load(
        self,
        name: str,
        answer: Answer,
        queued: Callable[[], None] | None = None,
        allowed: Allowed = (),
    ) -> RequestId:
        """A person's load. `answer` tells how it ends; `queued` is called when it waits, if it is
        not answered in that very step."""
        return self._load(name, Kind.LOAD, answer, queued, allowed)

    def load_on_startup(self, name: str, answer: Answer) -> RequestId:
        return self._load(name, Kind.STARTUP, answer, None)

    def _load_again(self, name: str) -> None:
        self.load_on_startup(name, say_refused)

    def unload(self, asked: Unload, answer: Callable[[int | Refused], None]) -> None:
        """`answer` gets how many instances of the preset were running."""

        def unload() -> None:
            try:
                spec = self._resolving.named(asked.preset, asked.allowed)
                refuse_remote(spec)
            except Refused as refusal:
                answer(refusal)
                return
            running = sum(run.spec.preset == spec.preset for run in self._owner.runs.values())
            self._owner.handle(UnloadAsked(PresetName(spec.preset), asked.force))
            answer(running)

        self._owner.post(unload)

    def apply(self, name: str, answer: Callable[[Refused | None], None]) -> None:
        """`answer` gets None when nothing runs any more that takes requests with older options."""

        def apply() -> None:
            self._owner.handle(ApplyAsked(PresetName(self._resolving.named(name).preset)))

        self._owner.post(lambda: answer(refusal_of(apply)))

    def keep(self, asked: Keep, answer: Callable[[Refused | None], None]) -> None:
        """A tenant's wish; `answer` gets None when it is heard."""

        def keep() -> None:
            preset = self._resolving.asked(asked.preset, asked.own, allowed=asked.allowed)
            self._owner.handle(KeepWished(preset, TenantId(asked.tenant), asked.seconds))

        self._owner.post(lambda: answer(refusal_of(keep)))

    def measured(self, told: Measured, answer: Callable[[Refused | None], None]) -> None:
        """`answer` gets None when the figures are kept."""

        def keep() -> None:
            preset = self._resolving.named(told.preset).preset
            self._owner.figures.keep(preset, told.fingerprint, told.devices)
            self._measured()

        self._owner.post(lambda: answer(refusal_of(keep)))

    def devices(self, answer: Callable[[DevicesState], None]) -> None:
        self._owner.post(lambda: answer(device_states(self._owner)))

    def fit(self, asked: Fit, answer: Callable[[FitAnswer | Refused], None]) -> None:
        def look() -> None:
            spec = self._owner.offer.resolve(asked.preset)
            try:
                if spec is None and asked.shape is None:
                    raise self._resolving.not_offered(asked.preset)
                answer(fit_answer(self._owner, asked, spec))
            except Refused as refusal:
                answer(refusal)

        self._owner.post(look)

    def forgo(self, charge: str, done: Callable[[], None]) -> None:
        """A request that got nothing does not come again."""

        def forgo() -> None:
            self._owner.limiting.forgo(charge)
            done()

        self._owner.post(forgo)

    def counted(self, asked: Counted, answer: Callable[[CountedState], None]) -> None:
        self._owner.post(lambda: answer(self._owner.limiting.counted(asked)))

    def snapshot(self, answer: Callable[[SnapshotState], None]) -> None:
        def look() -> None:
            live = snapshot(self._owner, self._models_max, self._jobs_beat)
            answer(msgspec.structs.replace(live, saves=self.saves.counting.states()))

        self._owner.post(look)

    def subscribe(
        self, listener: Callable[[Happened], None], left: Callable[[Callable[[], None]], None]
    ) -> None:
        """`listener` hears from the owner's next turn on; `left` gets what ends it."""
        happenings = self._owner.happenings
        self._owner.post(lambda: left(happenings.subscribe(listener)))

    def waiters(self, asked: Waiters, answer: Callable[[WaitersPage | Refused], None]) -> None:
        """`answer` gets one page of those who wait for a preset."""

        def look() -> None:
            spec = self._owner.offer.resolve(asked.preset)
            if spec is None:
                answer(self._resolving.not_offered(asked.preset))
                return
            preset = PresetName(spec.preset)
            answer(waiters(self._owner, preset, limit=asked.limit, offset=asked.offset))

        self._owner.post(look)

    def explain(
        self, request: RequestId | str, answer: Callable[[Explained | Refused], None]
    ) -> None:
        """`request` may be the text that its client knows it by."""

        def look() -> None:
            found = self._owner.waiting.latest(request) if isinstance(request, str) else request
            told = explained(self._owner, found) if found is not None else None
            answer(request_unknown() if told is None else told)

        self._owner.post(look)

    def ping(self, process: str, answer: Callable[[], None]) -> None:
        """Answered in the owner's turn: an owner that hangs does not answer. `process` is empty, or
        whose sign of life it is."""
        if process:
            self._jobs_beat = self._owner.clock()
        self._owner.post(answer)

    def shut_down(self, answer: Callable[[], None]) -> None:
        self._owner.post(ShutdownAsked())
        self._owner.post(answer)

    def _load(
        self,
        name: str,
        kind: Kind,
        answer: Answer,
        queued: Callable[[], None] | None,
        allowed: Allowed = (),
    ) -> RequestId:
        request = RequestId(next(self._ids))

        def admit() -> None:
            try:
                refuse_remote(self._resolving.named(name, allowed))
                preset = self._resolving.to_load(name, allowed)
            except Refused as refusal:
                answer(refusal)
                return
            waiting, now = self._owner.waiting, self._owner.clock()
            waiting.add(request, Asked(preset, answer, kind, now))
            self._owner.handle(Requested(request, preset, now, kind))
            if queued is not None and waiting.waits(request):
                queued()

        self._owner.post(admit)
        return request
