"""Watches a planner from outside and says which rule a decision breaks, whatever it is told.

It knows no order of the queue, only its bounds: with many tenants and classes the order is the
planner's own. What it checks costs little, so that it can be asked for millions of decisions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
    Abandoned,
    Cancelled,
    Detached,
    Event,
    Exited,
    KeepWished,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    ShutdownAsked,
    SleepingReported,
    SlotsSeen,
    UnloadAsked,
)
from scheduler.core.planner import Planner
from scheduler.core.sharing import Sharing
from scheduler.core.values import Code, Config, Kind, PresetName, PresetSpec, Refusal

from .accounts import Accounts
from .outside import WORK, following

COMES_BACK = frozenset(
    {
        Code.QUEUE_FULL,
        Code.MODEL_QUEUE_FULL,
        Code.TENANT_QUEUE_FULL,
        Code.QUEUE_TIMEOUT,
        Code.MODEL_BACKING_OFF,
    }
)


@dataclass(slots=True)
class Child:
    spec: PresetSpec
    started_at: float
    mood: str = "loading"
    loaded_at: float = 0.0
    last_release: float = 0.0
    draining: Reason | None = None
    drain_for: PresetName | None = None
    asked_at: float | None = None
    overdue_at: float = 0.0
    killed: bool = False
    leases: set[int] = field(default_factory=set)  # those that count against its slots
    unread: set[int] = field(default_factory=set)
    looks: dict[int, float] = field(default_factory=dict)  # request: when it began
    wishes: dict[str, float | None] = field(default_factory=dict)
    for_people: bool = False

    @property
    def going(self) -> bool:
        return self.asked_at is not None or self.killed

    @property
    def staying(self) -> bool:
        return not self.going and self.draining is None

    @property
    def read(self) -> bool:
        return len(self.leases) > len(self.unread)


@dataclass(slots=True)
class Waiter:
    preset: PresetName
    kind: Kind
    tenant: str
    arrived: float
    since: float
    detached_at: float | None = None


class Referee:
    def __init__(self, config: Config, *, keeps_time: bool = True) -> None:
        self.config = config
        self.planner = Planner(config)
        self.keeps_time = keeps_time  # False: the clock may go back, and no duration is judged
        self.now = 0.0
        self.timer: float | None = None
        self.log: list[tuple[Event, float, list[Decision]]] = []
        self.presets: dict[PresetName, PresetSpec] = {}
        self.accounts = Accounts(self.planner, lambda number: self.children[number].leases)
        self.waiting: dict[int, Waiter] = {}
        self.waiters_of: dict[PresetName, dict[int, Waiter]] = {}
        self.waited_for_since: dict[PresetName, float] = {}
        self.tenants: Counter[str] = Counter()
        self.children: dict[int, Child] = {}
        self.guessed: dict[
            PresetName, str
        ] = {}  # has waited for its measurement: loaded by a guess
        self.granted: dict[int, int] = {}  # request: instance
        self.made_for: set[PresetName] = set()  # somebody went for it: that room is its own
        self.shut = False
        self.forced: PresetName | None = None  # whose leases a person cuts in this step
        self.idle: set[int] = set()  # the abandoned leases whose slots were seen idle in this step
        self.cut: dict[int, set[int]] = {}  # the leases of the child whose exit is being told
        self.told = 0
        self.sound = True  # no rule was broken so far

    def tell(self, event: Event) -> list[Decision]:
        self.sound = False
        self.accounts.hear(event, self.now)
        self._hear(event)
        decisions = self.planner.handle(event, self.now)
        self.log.append((event, self.now, decisions))
        for decision in decisions:
            self._judge(decision)
        assert not any(self.cut.values()), "a lease outlived its instance"
        assert not self.idle, "a lease outlived its work"
        self.cut.clear()
        self.forced = None
        self.told += 1
        self._look_around()
        self.sound = True
        return decisions

    # What is told -----------------------------------------------------------------------

    def _hear(self, event: Event) -> None:  # noqa: C901 - one row per event
        match event:
            case Requested():
                self._hear_request(event)
            case Cancelled(request) | Released(request):
                self._leave(request)
                self._end_lease(request)
            case Abandoned(request):
                self._leave(request)
                child = self.children.get(self.granted.get(request, -1))
                if child is not None and request in child.leases:
                    child.unread.add(request)
                elif child is not None:
                    self._end_lease(request)
            case Detached(request):
                if (waiter := self.waiting.get(request)) is not None and waiter.kind in WORK:
                    waiter.detached_at = waiter.detached_at or self.now
            case PresetsChanged():
                self._hear_presets(event)
            case ShutdownAsked():
                self.shut = True
            case KeepWished(preset, tenant, seconds):
                for child in self.children.values():
                    if child.spec.name == preset and tenant in child.wishes:
                        child.wishes[tenant] = seconds
            case UnloadAsked(preset, force):
                self.forced = preset if force else None
            case _:
                self._hear_child(event)

    def _hear_request(self, event: Requested) -> None:
        if event.request in self.waiting or event.request in self.granted:
            return  # told twice
        waiter = Waiter(event.preset, event.kind, event.tenant, event.arrived, self.now)
        self._join(event.request, waiter)

    def _join(self, request: int, waiter: Waiter) -> None:
        self.waiting[request] = waiter
        self.waiters_of.setdefault(waiter.preset, {})[request] = waiter
        self.waited_for_since.setdefault(waiter.preset, self.now)
        self.tenants[waiter.tenant] += waiter.kind in WORK

    def _leave(self, request: int) -> Waiter | None:
        waiter = self.waiting.pop(request, None)
        if waiter is not None:
            line = self.waiters_of[waiter.preset]
            del line[request]
            if not line:
                del self.waiters_of[waiter.preset]
                del self.waited_for_since[waiter.preset]
                self.made_for.discard(waiter.preset)
            self.tenants[waiter.tenant] -= waiter.kind in WORK
        return waiter

    def _end_lease(self, request: int) -> None:
        child = self.children.get(self.granted.pop(request, -1))
        if child is None:
            return
        child.looks.pop(request, None)
        if request in child.leases:
            child.leases.discard(request)
            child.unread.discard(request)
            child.last_release = self.now

    def _hear_presets(self, event: PresetsChanged) -> None:
        self.presets = {spec.name: spec for spec in event.presets}
        for old, new in event.renamed:
            if (since := self.waited_for_since.get(old)) is not None:
                self.waited_for_since[new] = min(since, self.waited_for_since.get(new, since))
            for request in list(self.waiters_of.get(old, {})):
                waiter = self._leave(request)
                waiter.preset = new
                self._join(request, waiter)
        for child in self.children.values():
            if (edited := self.presets.get(child.spec.name)) is not None:
                child.spec = following(child.spec, edited)

    def _hear_child(self, event: Event) -> None:
        child = self.children.get(getattr(event, "instance", -1))
        if child is None:
            return
        match event:
            case ReadyReported():
                if child.mood != "loaded":
                    child.loaded_at = self.now
                child.mood = "loaded"
            case SleepingReported():
                child.mood = "sleeping"
            case LoadingReported() if child.mood == "sleeping":
                child.mood = "loading"
                child.started_at = self.now
            case SlotsSeen(_, busy):
                # Which of the abandoned ones have ended nobody knows; the first are as good.
                for request in sorted(child.unread)[: max(0, len(child.leases) - busy)]:
                    self._end_lease(request)
                    self.idle.add(request)
            case Exited(instance):
                self.cut[instance] = child.leases | set(child.looks)
                del self.children[instance]

    # What is decided --------------------------------------------------------------------

    def _judge(self, decision: Decision) -> None:
        match decision:
            case Start():
                self._judge_start(decision)
            case Wake(instance):
                child = self.children[instance]
                assert child.staying, "woken though it is on its way out"
                assert child.mood == "sleeping", "woken though it does not sleep"
                assert self._wanted(child.spec.name), "nobody waits for this wake"
                assert not self._rivals(child.spec), "woken beside what a group keeps apart"
                child.mood, child.started_at = "loading", self.now
                self.accounts.wake(instance)
            case Drain():
                self._judge_drain(decision)
            case Undrain(instance):
                child = self.children[instance]
                assert child.draining is not None, "no drain to undo"
                assert not child.going, "undone though it was asked to exit"
                assert child.draining is not Reason.UNLOADED, "a person's unload was undone"
                child.draining = child.drain_for = None
            case AskExit() | Kill():
                self._judge_end(decision)
            case Grant(request, instance):
                self._judge_grant(request, instance)
            case Reject():
                self._judge_refusal(decision)
            case Revoke(request, instance):
                self._judge_revoke(request, instance)
            case WakeAt(when):
                assert when > self.now or not self.keeps_time, "a timer in the past"
                self.timer = when

    def _wanted(self, preset: PresetName) -> bool:
        return preset in self.waiters_of

    def _judge_start(self, decision: Start) -> None:
        spec = decision.preset
        assert not self.shut, "started while shutting down"
        assert spec == self.presets.get(spec.name), "started with other options"
        alive = self.children.values()
        self._judge_beside_its_own(spec)
        assert not self._rivals(spec), "started beside what a group keeps apart"
        limit = self.config.models_max
        assert not limit or len(self.children) < limit, "A5: started without a slot"
        loads = sum(c.mood == "loading" and c.staying for c in alive)
        assert loads < 2 * self.config.models_max_loading, "A2: started without a loader"
        since = self.waited_for_since.get(spec.name, self.now)
        measured_at = since + self.config.measure_wait_seconds
        succeeds = any(child.staying for child in self._own(spec.name))  # it waits from the edit on
        waited = self.guessed.get(spec.name) == spec.fingerprint
        measuring = spec.measuring and not succeeds and not waited
        guesses = measuring and self.accounts.readings and self.keeps_time
        if spec.measuring:
            self.guessed[spec.name] = spec.fingerprint
        assert not guesses or self.now >= measured_at, "L5: started before it was measured"
        waits_alone = set(self.waiters_of) == {spec.name}
        self.accounts.start(decision, waits_alone=waits_alone)
        self._not_overtaken(spec.name, decision)
        self.children[decision.instance] = Child(spec, self.now)

    def _rivals(self, spec: PresetSpec) -> list[PresetName]:
        """Whose presets are now kept apart from it, whatever they were when they started."""
        awake = [c for c in self.children.values() if c.mood != "sleeping" or not c.staying]
        others = {c.spec.name for c in awake} - {spec.name}
        known = others & self.presets.keys()
        return [name for name in known if _apart(spec.sharing, self.presets[name].sharing)]

    def _own(self, preset: PresetName | None) -> list[Child]:
        return [child for child in self.children.values() if child.spec.name == preset]

    def _judge_beside_its_own(self, spec: PresetSpec) -> None:
        """A further one only where all others are full; the first of a new version beside an old
        one that still answers, where memory is counted or it may have as many at once."""
        own = [child for child in self._own(spec.name) if child.staying]
        new = [c for c in own if c.spec.fingerprint == spec.fingerprint]
        assert self._wanted(spec.name) or len(own) > len(new), "nobody waits for this start"
        assert len(new) < spec.replicas, "started twice"
        for child in new:
            assert child.mood == "loaded", "a further one beside one that is not loaded"
            assert len(child.leases) >= self._places(child), "a further one though one has a slot"
        if not new and len(own) >= spec.replicas:
            assert self.accounts.readings, "a new version beside the old one, and nobody counts"

    def _not_overtaken(self, preset: PresetName, decision: Start) -> None:
        """A1: whoever arrived two whole jumps before is before; but room is its entry's own, and a
        load beside the head's takes neither its room nor its loader."""
        mine = self._first(preset)
        coming = any(c.going or c.drain_for for c in self.children.values())
        if mine is None or coming or preset in self.made_for or not self.keeps_time:
            return
        for other in self.waiters_of:
            if other == preset or not self._needs_start(other):
                continue
            ready = self.accounts.could_start(self.presets[other])
            if self._rivals(self.presets[other]) or self._keeps_clear(other):
                continue
            if ready and (theirs := self._first(other)):
                assert theirs + 2 * self.config.max_priority_jump_seconds >= mine, "A1: overtaken"

    def _keeps_clear(self, preset: PresetName) -> bool:
        """A group keeps it apart from somebody who waits, and may be before it."""
        sharing = self.presets[preset].sharing
        return any(_apart(sharing, self.presets[o].sharing) for o in self.waiters_of if o != preset)

    def _first(self, preset: PresetName) -> float | None:
        work = [w.arrived for w in self.waiters_of.get(preset, {}).values() if w.kind in WORK]
        return min(work, default=None)

    def _needs_start(self, preset: PresetName) -> bool:
        return not any(c.spec.name == preset and c.staying for c in self.children.values())

    def _judge_drain(self, decision: Drain) -> None:
        child = self.children[decision.instance]
        assert not child.going, "drained though it was asked to exit"
        if decision.reason is Reason.EVICTED:
            name = decision.for_preset
            assert not child.spec.pinned, "V1: a pinned one drained"
            assert name != child.spec.name, "drained for itself"
            line = self.waiters_of.get(name, {}).values()
            kinds = {w.kind for w in line if w.detached_at is None}
            assert kinds - {Kind.GET, Kind.STARTUP}, "A9: nobody waits who may have one drained"
            if child.draining is None and self.keeps_time:
                assert self.now >= self._drains_from(child, name), "A6: drained too early"
            self.made_for.add(name)
            child.drain_for = name  # it stays so, whatever else it drains for later
        if decision.reason is Reason.OVER_LIMIT:
            assert not child.spec.pinned, "V1: a pinned one drained"
            assert self.accounts.over_limit(decision.instance), "L1: drained, and it fits"
        child.draining = decision.reason

    def _drains_from(self, child: Child, head: PresetName) -> float:
        """No drain begins before: the quantum may be cut by weights, max_wait begins when the
        entry became head, at the earliest when it was made."""
        config, spec = self.config, self.presets[head]
        residency = _or(child.spec.min_residency_seconds, config.min_residency_seconds)
        max_wait = _or(spec.max_wait_seconds, config.max_wait_seconds)
        since = self.waited_for_since[head]
        quantum = 0.0 if len(self.tenants) > 1 else config.quantum_seconds
        due = max(child.loaded_at + residency, since + quantum)
        return min(due, since + max_wait)

    def _judge_end(self, decision: AskExit | Kill) -> None:
        child, reason = self.children[decision.instance], decision.reason
        assert not child.killed, "killed twice, or asked after"
        others = self.made_for - {decision.for_preset}
        sleeps = any(c.mood == "sleeping" for c in self._own(decision.for_preset))
        chosen = child.draining is None and not others and not sleeps
        for_whom = self.presets.get(decision.for_preset)
        rival = for_whom is not None and child.spec.name in self._rivals(for_whom)
        self.accounts.end(decision, is_chosen_now=chosen, goes_for_its_group=rival)
        if decision.for_preset in self.waiters_of:
            self.made_for.add(decision.for_preset)
        violent = reason in (Reason.HUNG, Reason.STOP_TIMEOUT, Reason.LOAD_STALLED)
        assert violent or not child.read or self.forced == child.spec.name, "an answer was cut"
        if reason in (Reason.EVICTED, Reason.IDLE, Reason.UNWANTED):
            assert not child.spec.pinned, f"V1: a pinned one went: {reason}"
        if reason is Reason.IDLE:
            self._judge_idle_end(child)
        if reason is Reason.OVER_LIMIT and child.draining is not reason:
            assert not child.spec.pinned, "V1: a pinned one went"
            assert self.accounts.over_limit(decision.instance), "L1: it went, and it fits"
        if isinstance(decision, AskExit):
            assert child.asked_at is None, "asked twice"
            assert child.mood != "loading", "a loading child does not read its stdin"
            child.asked_at = self.now
            child.overdue_at = self.now + child.spec.stop_timeout_seconds
            return
        if reason is Reason.STOP_TIMEOUT and self.keeps_time:
            assert child.asked_at is not None, "killed for a time-out, and never asked"
            assert child.overdue_at <= self.now, "killed too early"
        if reason is Reason.LOAD_STALLED and self.keeps_time:
            assert child.started_at + self.config.load_stall_seconds <= self.now, "killed too early"
        child.killed = True

    def _judge_idle_end(self, child: Child) -> None:
        """V5."""
        keep = _or(child.spec.keep_alive_seconds, self.config.keep_alive_seconds)
        wishes = [-1.0 if wish is None else wish for wish in child.wishes.values()]
        if wishes and min(wishes) >= 0 and not child.for_people:
            keep = max(wishes) if keep is None else min(keep, max(wishes))
        assert keep is not None, "no keep-alive, and it ended idle"
        assert not child.leases, "ended idle under a lease"
        kinds = {w.kind for w in self.waiters_of.get(child.spec.name, {}).values()}
        assert kinds <= {Kind.GET}, "ended idle though somebody waits"
        if self.keeps_time:
            assert self.now >= max(child.loaded_at, child.last_release) + keep, "ended too early"

    def _judge_grant(self, request: int, instance: int) -> None:
        waiter = self._leave(request)
        assert waiter is not None, "granted to nobody who waits"
        child = self.children[instance]
        assert child.spec.name == waiter.preset, "granted another model"
        assert child.mood == "loaded", "granted on a child that does not answer"
        assert child.staying, "granted on a child that is on its way out"
        assert not self.shut, "granted while shutting down"
        if waiter.kind is Kind.GET:
            child.looks[request] = self.now
            self.granted[request] = instance
        elif waiter.kind not in WORK:
            child.for_people = True
        else:
            child.wishes[waiter.tenant] = None
            child.leases.add(request)
            self.granted[request] = instance
            assert len(child.leases) <= self._places(child), "A8: too many leases"
            jump = self.config.max_priority_jump_seconds
            overdue = self.now - jump - self.config.queue_wait_seconds / 2
            bound = min(waiter.arrived - jump, overdue)
            line = self.waiters_of.get(waiter.preset, {}).values()
            assert not any(w.kind in WORK and w.arrived < bound for w in line), "A8: overtaken"

    def _places(self, child: Child) -> int:
        return max(1, int(child.spec.parallel * self.config.oversubscribe))

    def _judge_revoke(self, request: int, instance: int) -> None:
        if request in self.idle:
            self.idle.remove(request)
            return
        if instance in self.cut:
            self.cut[instance].remove(request)
            self.granted.pop(request)
            return
        began = self.children[instance].looks.pop(request)
        assert self.granted.pop(request) == instance
        late = self.now >= began + self.config.look_seconds
        assert late or not self.keeps_time, "a look was cut short"

    def _judge_refusal(self, decision: Reject) -> None:
        asked = self.waiting.get(decision.request)
        assert asked is not None, "refused who does not wait"
        since = self.waited_for_since[asked.preset]
        waiter = self._leave(decision.request)
        refusal, config = decision.refusal, self.config
        if refusal.code in COMES_BACK:
            assert refusal.retry_after_seconds is not None, f"{refusal.code} without Retry-After"
            assert refusal.retry_after_seconds > 0
        match refusal.code:
            case Code.QUEUE_FULL | Code.MODEL_QUEUE_FULL | Code.TENANT_QUEUE_FULL:
                self._judge_full_queue(refusal.code, waiter)
            case Code.QUEUE_TIMEOUT:
                limit = waiter.since + config.queue_wait_seconds
                if waiter.detached_at is not None:
                    limit = min(limit, waiter.detached_at + config.detached_wait_seconds)
                assert self.now >= limit - 1e-6 or not self.keeps_time, "A7: refused too early"
                assert waiter.kind is not Kind.STARTUP
            case Code.MODEL_NOT_FOUND | Code.MODEL_REMOVED:
                assert waiter.preset not in self.presets
            case Code.MODEL_NOT_LOADED:
                assert waiter.kind is Kind.GET
            case Code.DOES_NOT_FIT:
                assert waiter.kind in (Kind.STARTUP, Kind.GET)  # a look that joined it
            case Code.MODEL_TOO_LARGE | Code.BLOCKED_BY_PINNED | Code.MEMORY_IN_USE:
                self._judge_no_place(waiter, refusal, since)
            case Code.SHUTTING_DOWN:
                assert self.shut

    def _judge_full_queue(self, code: Code, waiter: Waiter) -> None:
        """A7: the other requests are so many already; of the whole queue, all that wait."""
        config = self.config
        if code is Code.QUEUE_FULL:
            limit, others = config.queue_limit, len(self.waiting)
        elif code is Code.MODEL_QUEUE_FULL:
            own = self.presets[waiter.preset].queue_limit
            limit = _or(own, config.queue_limit_per_preset)
            line = self.waiters_of.get(waiter.preset, {}).values()
            others = sum(other.kind in WORK for other in line)
        else:
            limit, others = config.queue_limit_per_tenant, self.tenants[waiter.tenant]
        assert 0 < limit <= others, f"A7: {code} though there is a place"

    def _judge_no_place(self, waiter: Waiter, refusal: Refusal, since: float) -> None:
        spec, code, limit = self.presets[waiter.preset], refusal.code, self.config.models_max
        pinned = [i for i, c in self.children.items() if c.spec.pinned and c.staying]
        if code is Code.BLOCKED_BY_PINNED and limit and len(pinned) >= limit:
            return
        if code is Code.BLOCKED_BY_PINNED and set(refusal.blocked_by) <= set(self._rivals(spec)):
            assert set(refusal.blocked_by) <= {self.children[i].spec.name for i in pinned}
            return
        self.accounts.refuse(spec, code, pinned)
        if code is Code.BLOCKED_BY_PINNED:
            assert set(refusal.blocked_by) <= {self.children[i].spec.name for i in pinned}
            return
        assert refusal.short, f"{code}, and not said what is missing"
        assert all(size > 0 for _, size in refusal.short)
        if code is Code.MEMORY_IN_USE and waiter.kind is not Kind.STARTUP and self.keeps_time:
            patience = _or(spec.max_wait_seconds, self.config.max_wait_seconds)
            assert self.now >= since + patience, "A6: refused too early"

    # What must be so after each step --------------------------------------------------------

    def _look_around(self) -> None:
        limit = self.config.models_max
        assert not limit or len(self.children) <= limit, "A5: too many processes"
        assert not (self.shut and self.waiting), "somebody waits in a shut house"
        stirs = False
        for child in self.children.values():
            stirs = stirs or child.going or bool(child.leases) or child.mood == "loading"
            if child.staying and child.mood == "loaded" and child.spec.name in self.waiters_of:
                self._nobody_waits_before_an_open_door(child)
            if self.keeps_time:
                self._nothing_is_overdue(child)
        if self.waiting and not stirs:
            assert self.timer is not None, "a wake-up was lost"
            assert self.timer > self.now or not self.keeps_time, "a wake-up was lost"

    def _nobody_waits_before_an_open_door(self, child: Child) -> None:
        line = self.waiters_of[child.spec.name].values()
        assert all(w.kind in WORK for w in line), "a load or a look waits for a slot"
        assert len(child.leases) >= self._places(child), "somebody waits while a slot is free"

    def _nothing_is_overdue(self, child: Child) -> None:
        if child.asked_at is not None and not child.killed:
            assert child.overdue_at > self.now, "not killed"
        for began in child.looks.values():
            assert began + self.config.look_seconds > self.now, "a look without an end"
        if child.draining and not child.going:
            assert child.read, "a drain outlived its last reader"

    def check_entries(self) -> None:
        """Each waiter is in an entry; whether a look is one is not said."""
        told = {entry.preset: entry.waiters for entry in self.planner.entries(self.now)}
        for name, line in self.waiters_of.items():
            looks = sum(waiter.kind is Kind.GET for waiter in line.values())
            assert len(line) - looks <= told.pop(name, 0) <= len(line), "an entry counts wrongly"
        assert not told, "an entry without waiters"

    def check_replay(self) -> None:
        fresh = Planner(self.config)
        for event, now, decisions in self.log:
            assert fresh.handle(event, now) == decisions, "the same events, other decisions"


def _apart(one: Sharing, other: Sharing) -> bool:
    if one.group and one.group == other.group:
        return one.one_at_a_time
    alone = [a.exclusive and not b.persistent for a, b in ((one, other), (other, one))]
    return any(alone)


def _or(own: float | None, general: float | None) -> float | None:
    return general if own is None else own
