"""The outside world of a planner: what happens in it, and how decisions are carried out.

Each decision is checked against the rules in the moment in which it is carried out.
"""

from __future__ import annotations

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
    Event,
    Exited,
    LoadingReported,
    ReadyReported,
    Requested,
    SleepingReported,
)
from scheduler.core.values import Code, Exit, Kind, PresetName, Refusal

from .outside import RANK, Ask, Child, Outside

AT_THE_DOOR = frozenset({Code.QUEUE_FULL, Code.SHUTTING_DOWN})


class World(Outside):
    def tell(self, event: Event) -> list[Decision]:
        decisions = self.planner.handle(event, self.now)
        self.log.append((event, self.now, decisions))
        for decision in decisions:
            self.forget_rooms()
            self.carry_out(decision)
        self.forget_rooms()
        assert self.failed_now not in {a.preset for a in self.waiting.values()}, "A4"
        self.failed_now, self.gave_up_memory = None, False
        return decisions

    # What happens in it --------------------------------------------------------

    def ask(self, request: int, preset: PresetName, kind: Kind, arrived: float) -> None:
        failures = self.ran_out, self.failed_in_a_row, self.backs_off_until, self.broken
        before = [dict(record) for record in failures]
        if kind is Kind.LOAD:
            self.clear_failures(preset)
        self.waiting[request] = Ask(preset, kind, (RANK[kind], arrived, request), self.now)
        decisions = self.tell(Requested(request, preset, arrived, kind))
        if any(isinstance(d, Reject) and d.refusal.code in AT_THE_DOOR for d in decisions):
            # Who was not let in has cleared nothing.
            self.ran_out, self.failed_in_a_row, self.backs_off_until, self.broken = before
        backs_off = self.backs_off_until.get(preset, 0) > self.now and not self.staying(preset)
        assert not (backs_off and request in self.waiting), "A4: queued while backing off"

    def ready(self, number: int) -> None:
        child = self.children[number]
        before, child.mood, child.has_loaded = child.mood, "loaded", True
        if child.staying and before != "loaded":
            child.last_used = self.now
            child.unwanted = not child.leases and self.place(child.spec.name) is None
        if child.staying:
            self.clear_failures(child.spec.name)
        self.tell(ReadyReported(number))

    def fall_asleep(self, number: int) -> None:
        child = self.children[number]
        child.mood, child.has_loaded, child.beside = "sleeping", True, False
        self.tell(SleepingReported(number))

    def wake_by_itself(self, number: int) -> None:
        child = self.children[number]
        child.mood, child.progress, child.got_on_at = "loading", -1.0, self.now
        self.tell(LoadingReported(number))

    def get_on(self, number: int, progress: float | None) -> None:
        child = self.children[number]
        if progress is not None and progress > child.progress:
            child.progress, child.got_on_at = progress, self.now
        self.tell(LoadingReported(number, progress))

    def exit(self, number: int, exit: Exit) -> None:
        child = self.children.pop(number)
        self.dead, self.revoked = number, set(child.leases)
        if child.staying and child.mood == "loading":
            self.fail_load(child, exit)
        self.tell(Exited(number, exit))
        assert not self.revoked, "a lease outlived its instance"
        self.dead = None

    def fail_load(self, child: Child, exit: Exit) -> None:
        """A4."""
        name = child.spec.name
        if exit.out_of_memory:
            self.ran_out[name] = self.ran_out.get(name, 0) + 1
            self.gave_up_memory = self.ran_out[name] >= self.config.out_of_memory_loads
            if self.place(name) is not None:
                self.evict_once_more.add(name)
        if self.gave_up_memory or not (exit.out_of_memory or child.has_loaded):
            self.note_failed_load(name, exit)

    def note_failed_load(self, name: PresetName, exit: Exit) -> None:
        self.failed_now = name
        self.ran_out.pop(name, None)
        self.evict_once_more.discard(name)
        self.failed_in_a_row[name] = self.failed_in_a_row.get(name, 0) + 1
        back_off = min(2.0 ** (self.failed_in_a_row[name] - 1), 60.0)
        self.backs_off_until[name] = self.now + back_off
        self.broken.pop(name, None)
        if not self.gave_up_memory:
            self.broken[name] = exit

    def clear_failures(self, preset: PresetName) -> None:
        for record in (self.ran_out, self.failed_in_a_row, self.backs_off_until, self.broken):
            record.pop(preset, None)

    # Carrying out -------------------------------------------------------------

    def carry_out(self, decision: Decision) -> None:
        match decision:
            case Start():
                self.start(decision)
            case Wake(instance):
                self.wake(instance)
            case Drain(instance, reason):
                self.drain(self.children[instance], reason)
            case Undrain(instance):
                self.undrain(self.children[instance])
            case AskExit() | Kill():
                self.end(decision)
            case Grant() | Reject():
                self.answer(decision)
            case Revoke(request, instance):
                assert instance == self.dead, "revoked on a living child"
                self.revoked.remove(request)
            case WakeAt(when):
                assert when > self.now, "a timer in the past would be asked for ever"
                self.timer = when

    def start(self, decision: Start) -> None:
        spec = decision.preset
        assert spec == self.presets[spec.name], "started with other options than its preset has"
        assert self.staying(spec.name) is None, "a second instance of one preset"
        if self.config.models_max:
            assert len(self.children) < self.config.models_max, "A5: started without a slot"
        assert self.backs_off_until.get(spec.name, 0) <= self.now, "A4: started while backing off"
        beside = self.take_loader(spec.name)
        assert not beside or self.room.get(spec.name) not in (None, *self.children), "A2: overtaken"
        startup = self.startup_only(spec.name)
        assert decision.reason is (Reason.STARTUP if startup else Reason.REQUESTED)
        if startup:
            assert not self.starting_up(), "A10: start-up loads go one by one"
        else:
            owed = spec.name in self.evict_once_more and spec.name not in self.broken
            assert not owed or not self.eligible(spec.name), "A4: tried without one victim more"
        theirs = [p for p, v in self.room.items() if p != spec.name and v not in self.children]
        if self.config.models_max:
            assert len(self.children) + len(theirs) < self.config.models_max, "A2: another's room"
        assert self.awaited.pop(spec.name, None) not in self.children, "A4: tried without room"
        self.evict_once_more.discard(spec.name)
        self.room.pop(spec.name, None)
        child = Child(spec, self.now, startup=startup, beside=beside, got_on_at=self.now)
        self.children[decision.instance] = child

    def take_loader(self, preset: PresetName) -> bool:
        """A2: only the head loads, but for loads beside a head that waits for room."""
        assert not self.shut, "loaded while shutting down"
        assert preset in self.pending(), "nobody waits for this load"
        beside = preset != self.pending()[0]
        if beside:
            head = self.pending()[0]
            assert self.config.models_max, "A2: overtaken, and the head needs no room"
            assert self.staying(head) is None, "A2: overtaken, and the head needs no room"
        # Where others than the head may load, there was no loader missing for the head.
        assert self.loading(beside=beside) < self.config.models_max_loading, "A2: no loader"
        return beside

    def wake(self, instance: int) -> None:
        child = self.children[instance]
        assert child.staying
        assert child.mood == "sleeping"
        child.beside = self.take_loader(child.spec.name)
        child.mood, child.progress, child.got_on_at = "loading", -1.0, self.now
        assert not (child.beside and self.pending()[0] in self.awaited), "A4: the head's memory"

    def drain(self, child: Child, reason: Reason) -> None:
        assert child.read_by_someone, "drained what nobody reads"
        assert not child.going
        assert not child.draining or reason is not child.drain_reason, "drained twice"
        assert self.may_leave(child, reason)
        child.draining, child.drain_reason = True, reason

    def undrain(self, child: Child) -> None:
        assert child.draining
        assert not child.going
        assert child.drain_reason is not Reason.UNLOADED, "an edit undid a person's unload"
        assert self.runs_its_preset(child)
        child.draining, child.drain_reason = False, None

    def runs_its_preset(self, child: Child) -> bool:
        spec = self.presets.get(child.spec.name)
        return spec is not None and spec.fingerprint == child.spec.fingerprint

    def may_leave(self, child: Child, reason: Reason) -> bool:
        match reason:
            case Reason.REMOVED:
                return child.spec.name not in self.presets
            case Reason.REPLACED:
                return child.spec.name in self.presets and not self.runs_its_preset(child)
            case Reason.UNLOADED:
                return self.unloading
        return False

    def end(self, decision: AskExit | Kill) -> None:
        instance, reason, for_preset = decision.instance, decision.reason, decision.for_preset
        if isinstance(decision, Kill):
            self.kill(instance, reason, for_preset)
            return
        child = self.children[instance]
        assert not child.going, "asked twice"
        assert child.mood != "loading", "a loading child does not read its stdin"
        assert child.spec.stop_timeout_seconds > 0
        self.stop(instance, reason, for_preset)
        child.asked_at = self.now
        child.overdue_at = self.now + child.spec.stop_timeout_seconds

    def kill(self, instance: int, reason: Reason, for_preset: PresetName | None) -> None:
        child = self.children[instance]
        assert not child.killed, "killed twice"
        if reason is Reason.STOP_TIMEOUT:
            assert child.asked_at is not None
            assert child.overdue_at <= self.now, "killed too early"
        elif reason is Reason.LOAD_STALLED:
            assert self.stalls_at(child) <= self.now, "killed though it got on"
            if child.staying:
                self.gave_up_memory = False
                words = f"no progress for {self.config.load_stall_seconds:g} s while loading"
                self.note_failed_load(child.spec.name, Exit(signal=9, words=words))
        else:
            assert not child.going
            assert child.mood == "loading" or child.spec.stop_timeout_seconds == 0
            self.stop(instance, reason, for_preset)
        child.killed = True

    def stop(self, instance: int, reason: Reason, for_preset: PresetName | None) -> None:
        child = self.children[instance]
        if reason in (Reason.EVICTED, Reason.UNWANTED):
            assert reason is Reason.UNWANTED or for_preset not in self.broken, (
                "A4: for a broken one"
            )
            self.evict(instance, reason, for_preset)
            return
        assert not child.read_by_someone or self.forcing, "stopped under a lease"
        assert child.drain_reason is reason or self.may_leave(child, reason)

    # Victims ------------------------------------------------------------------

    def eligible(self, for_preset: PresetName) -> dict[int, Child]:
        """V1, and the loads of A3."""
        return {
            number: child
            for number, child in self.children.items()
            if child.staying
            and not child.read_by_someone
            and not child.spec.pinned
            and (
                self.place(child.spec.name) is None
                if child.mood == "loading"
                else (own := self.place(child.spec.name)) is None or own > self.place(for_preset)
            )
        }

    def eviction_order(self, number: int) -> tuple[int, float, int]:
        """V2."""
        child = self.children[number]
        rank = {"loading": 0, "sleeping": 2, "loaded": 3}[child.mood]
        if child.unwanted:
            rank = 1
        if child.leases:
            rank = 4
        if child.mood == "loading" and not child.leases:
            rank = 0
        return rank, child.last_used, number

    def evict(self, instance: int, reason: Reason, for_preset: PresetName | None) -> None:
        child = self.children[instance]
        assert for_preset == self.pending()[0], "only the head may evict"
        assert not self.startup_only(for_preset), "A10: a start-up load evicted"
        assert (reason is Reason.UNWANTED) == (child.mood == "loading")
        candidates = self.eligible(for_preset)
        assert instance in candidates, "V1: this one is never a victim"
        asleep = self.staying(for_preset) is not None
        once_more = for_preset in self.evict_once_more
        limited = self.config.models_max > 0
        short = limited and self.free() < 1 and for_preset not in self.room
        if (short or once_more) and not asleep:
            best = min(candidates, key=self.eviction_order)
            assert instance == best, "V2: another one goes first"
            self.room[for_preset] = instance
            if once_more:
                self.awaited[for_preset] = instance
            self.evict_once_more.discard(for_preset)
            return
        assert reason is Reason.UNWANTED, "A5: needless victim"
        assert self.loading(beside=False) >= self.config.models_max_loading, "A3: needless kill"

    # Answers ------------------------------------------------------------------

    def answer(self, decision: Grant | Reject) -> None:
        match decision:
            case Grant(request, instance):
                self.grant(request, self.children[instance])
            case Reject(request, refusal):
                self.check_refusal(self.waiting.pop(request), refusal)

    def grant(self, request: int, child: Child) -> None:
        ask = self.waiting.pop(request)
        assert ask.preset == child.spec.name
        assert child.mood == "loaded", "granted on a child that does not answer"
        assert child.staying, "granted on a child that is on its way out"
        older = [a for a in self.waiting.values() if a.preset == ask.preset and a.place < ask.place]
        child.unwanted = False
        if ask.kind in (Kind.POST, Kind.WEBSOCKET):
            assert all(RANK[a.kind] for a in older), "overtaken within its entry"
            child.last_used = self.now
            child.leases.add(request)

    def check_refusal(self, ask: Ask, refusal: Refusal) -> None:
        match refusal.code:
            case Code.MODEL_NOT_FOUND | Code.MODEL_REMOVED:
                assert ask.preset not in self.presets
            case Code.MODEL_LOAD_FAILED | Code.OUT_OF_MEMORY | Code.MODEL_BACKING_OFF:
                self.check_failure(ask, refusal)
            case Code.MODEL_BROKEN:
                assert refusal.exit == self.broken[ask.preset]
                assert self.config.models_max, "refused though there is always room"
            case Code.QUEUE_FULL:
                assert len(self.waiting) >= self.config.queue_limit
            case Code.QUEUE_TIMEOUT:
                assert ask.since + self.config.queue_wait_seconds <= self.now
                assert ask.kind is not Kind.STARTUP
                assert not self.is_loaded_for(ask.preset), "A7: the clock ran during a load"
            case Code.DOES_NOT_FIT | Code.BLOCKED_BY_PINNED:
                self.check_lack_of_room(ask, refusal)
            case Code.UNLOADED:
                assert self.unloading
                assert self.is_loaded_for(ask.preset), "an unload lost a waiter"
            case Code.SHUTTING_DOWN:
                assert self.shut

    def check_failure(self, ask: Ask, refusal: Refusal) -> None:
        assert refusal.exit is not None, "A4: refused without saying how the child ended"
        if refusal.code is Code.MODEL_BACKING_OFF:
            left = self.backs_off_until[ask.preset] - self.now
            assert refusal.retry_after_seconds == left > 0
            assert ask.kind is not Kind.LOAD
        else:
            assert self.failed_now == ask.preset
            assert self.gave_up_memory == (refusal.code is Code.OUT_OF_MEMORY)

    def check_lack_of_room(self, ask: Ask, refusal: Refusal) -> None:
        assert len(self.children) >= self.config.models_max > 0
        if refusal.code is Code.DOES_NOT_FIT:
            assert ask.kind is Kind.STARTUP
            assert not self.stopping(), "skipped while room is coming"
        else:
            pins = [c.spec.name for c in self.children.values() if c.spec.pinned and c.staying]
            assert refusal.blocked_by == tuple(sorted(pins))
            assert len(pins) >= self.config.models_max
            assert ask.preset not in pins
