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
    Silent,
    SleepingReported,
)
from scheduler.core.values import Exit, Kind, PresetName

from .answering import AT_THE_DOOR, NOT_LET_IN, Answering
from .outside import RANK, WORK, Ask, Child, Since


class World(Answering):
    def tell(self, event: Event) -> list[Decision]:
        self.sound = False
        decisions = self.planner.handle(event, self.now)
        self.log.append((event, self.now, decisions))
        for decision in decisions:
            self.forget_rooms()
            self.carry_out(decision)
        self.forget_rooms()
        self.note_times()
        assert self.failed_now not in {a.preset for a in self.waiting.values()}, "A4"
        self.failed_now, self.gave_up_memory = None, False
        self.sound = True
        return decisions

    # What happens in it --------------------------------------------------------

    def ask(self, request: int, preset: PresetName, kind: Kind, arrived: float) -> None:
        records = self.ran_out, self.failed_in_a_row, self.backs_off_until, self.failed
        before = [(record, record[preset]) for record in records if preset in record]
        if kind is Kind.LOAD:
            self.clear_failures(preset)
        self.waiting[request] = Ask(preset, kind, (RANK[kind], arrived, request), self.now)
        times = self.asked.setdefault(preset, [])
        if counts := kind in WORK:
            times.append(self.now)
        decisions = self.tell(Requested(request, preset, arrived, kind))
        if any(isinstance(d, Reject) and d.refusal.code in AT_THE_DOOR for d in decisions):
            for record, value in before:
                record.setdefault(preset, value)  # who was not let in has cleared nothing
        refused = [d.refusal.code for d in decisions if isinstance(d, Reject)]
        if counts and not NOT_LET_IN.isdisjoint(refused):
            times.pop()
        if request in self.waiting:
            self.check_queued(self.waiting[request])
        backs_off = self.backs_off_until.get(preset, 0) > self.now and not self.staying(preset)
        assert not (backs_off and request in self.waiting), "A4: queued while backing off"

    def ready(self, number: int) -> None:
        child = self.children[number]
        before, child.mood, child.has_loaded = child.mood, "loaded", True
        if before != "loaded":
            first = child.loaded.first if child.loaded else self.now
            child.loaded, child.restless_at = Since(first, self.now), self.now
        if child.staying and before != "loaded":
            child.last_used = self.now
            wanted = self.place(child.spec.name) or self.asks(child.spec.name, looks=True)
            child.unwanted = not child.leases and not wanted
        if child.staying:
            self.clear_failures(child.spec.name)
            self.has_loaded.add(child.spec.name)
        self.tell(ReadyReported(number))

    def fall_asleep(self, number: int) -> None:
        child = self.children[number]
        child.mood, child.has_loaded, child.beside = "sleeping", True, False
        child.loaded = child.loaded or Since(self.now, self.now)
        child.restless_at = self.now
        self.tell(SleepingReported(number))

    def wake_by_itself(self, number: int) -> None:
        child = self.children[number]
        child.mood, child.progress, child.got_on_at = "loading", -1.0, self.now
        self.tell(LoadingReported(number))

    def hang(self, number: int) -> None:
        self.hanging = number
        child = self.children[number]
        was_going = child.going
        self.tell(Silent(number))
        assert child.killed or was_going, "a child that hangs lives on"
        self.hanging = None

    def release(self, request: int) -> None:
        """The lease is over; whoever tells it to the planner says so."""
        child = self.holder(request)
        child.leases.discard(request)
        child.unread.discard(request)
        child.finished_unread = min(child.finished_unread, len(child.unread))
        child.released_at = child.restless_at = self.now

    def get_on(self, number: int, progress: float | None) -> None:
        child = self.children[number]
        if progress is not None and progress > child.progress:
            child.progress, child.got_on_at = progress, self.now
        self.tell(LoadingReported(number, progress))

    def exit(self, number: int, exit: Exit) -> None:
        child = self.children.pop(number)
        self.dead, self.revoked = number, child.leases | set(child.looks)
        if child.staying and child.mood == "loading":
            self.fail_load(child, exit)
        self.tell(Exited(number, exit))
        assert not self.revoked, "a lease outlived its instance"
        self.dead = None

    # Carrying out -------------------------------------------------------------

    def carry_out(self, decision: Decision) -> None:
        match decision:
            case Start():
                self.start(decision)
            case Wake(instance):
                self.wake(instance)
            case Drain(instance, Reason.EVICTED, for_preset):
                self.drain_for(instance, for_preset)
            case Drain(instance, reason):
                self.drain(self.children[instance], reason)
            case Undrain(instance):
                self.undrain(instance)
            case AskExit() | Kill():
                self.end(decision)
            case Grant() | Reject():
                self.answer(decision)
            case Revoke(request, instance):
                self.revoke(request, instance)
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
        if self.place(spec.name) is None:
            self.start_for_a_look(decision)
            return
        beside = self.take_loader(spec.name)
        assert not beside or self.room.get(spec.name) not in (None, *self.children), "A2: overtaken"
        startup = self.startup_only(spec.name)
        assert decision.reason is (Reason.STARTUP if startup else Reason.REQUESTED)
        if startup:
            assert not self.starting_up(), "A10: start-up loads go one by one"
        else:
            owed = spec.name in self.evict_once_more and not self.is_broken(spec.name)
            could_go = self.eligible(spec.name, surely=True)
            assert not owed or not could_go, "A4: tried without one victim more"
        if self.config.models_max:
            theirs = self.made_for_others(spec.name)
            assert len(self.children) + len(theirs) < self.config.models_max, "A2: another's room"
        assert self.awaited.pop(spec.name, None) not in self.children, "A4: tried without room"
        self.evict_once_more.discard(spec.name)
        self.room.pop(spec.name, None)
        self.room_before.pop(spec.name, None)
        child = Child(spec, self.now, startup=startup, beside=beside, got_on_at=self.now)
        self.children[decision.instance] = child

    def start_for_a_look(self, decision: Start) -> None:
        """A8: only what fits at once, with the loader free and nobody before it."""
        spec = decision.preset
        assert self.asks(spec.name, looks=True), "nobody waits for this load"
        assert not self.shut
        assert not self.pending(), "A8: a look loads before those who wait"
        assert self.loading(beside=True) < self.config.models_max_loading, "A8: no loader"
        assert self.keep_alive(spec) != 0, "A8: loaded to go at once"
        self.children[decision.instance] = Child(spec, self.now, got_on_at=self.now)

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
