"""The planner against a model of the outside world, driven by Hypothesis."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.core.decisions import Reason
from scheduler.core.events import (
    Abandoned,
    ApplyAsked,
    Cancelled,
    Exited,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    ShutdownAsked,
    Silent,
    SleepingReported,
    SlotsSeen,
    Ticked,
    UnloadAsked,
)
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Exit, Kind, PresetSpec

from .answering import WORK
from .world import World

NAMES = "abcd"
PARALLEL = {"one": 1, "two": 2}  # by fingerprint: an edit changes both


def spec(name, fingerprint, pinned, patience, **times) -> PresetSpec:
    return PresetSpec(name, fingerprint, PARALLEL[fingerprint], pinned, patience, **times)


specs = st.builds(
    spec,
    name=st.sampled_from(NAMES),
    fingerprint=st.sampled_from(sorted(PARALLEL)),
    pinned=st.sampled_from([False, False, False, True]),
    patience=st.sampled_from([10.0, 10.0, 0.0]),
    max_wait_seconds=st.sampled_from([None, None, 2.0]),
    min_residency_seconds=st.sampled_from([None, None, 1.0]),
    keep_alive_seconds=st.sampled_from([None, None, 0.0, 5.0]),
    queue_limit=st.sampled_from([None, None, 3]),
)
configs = st.builds(
    Config,
    models_max=st.sampled_from([1, 2, 2, 3, 0]),
    models_max_loading=st.sampled_from([1, 1, 2]),
    queue_limit=st.sampled_from([6, 50]),
    queue_limit_per_preset=st.sampled_from([0, 0, 4]),
    queue_wait_seconds=st.just(30.0),
    max_wait_seconds=st.sampled_from([0.0, 5.0, 30.0]),
    quantum_seconds=st.sampled_from([0.0, 5.0, 30.0]),
    min_residency_seconds=st.sampled_from([0.0, 0.0, 4.0]),
    keep_alive_seconds=st.sampled_from([None, None, 0.0, 10.0]),
    oversubscribe=st.sampled_from([1.0, 1.0, 2.0]),
    load_stall_seconds=st.sampled_from([10.0, 300.0]),
)
exits = st.sampled_from([Exit(code=1), Exit(signal=9), Exit(code=1, out_of_memory=True)])


class PlannerMachine(RuleBasedStateMachine):
    @initialize(
        config=configs,
        some=st.tuples(specs, specs, specs, specs),
        used=st.lists(st.sampled_from(NAMES), max_size=4),
    )
    def machine_boots(self, config, some, used):
        self.world = World(config)
        self.next_request = 1
        self.edit({n: replace(s, name=n) for n, s in zip(NAMES, some, strict=True)})
        for name in used:
            self.world.now += 1
            self.ask(name)
            self.cooperate()

    def ask(self, preset, kind=Kind.POST, age=0.0):
        request, self.next_request = self.next_request, self.next_request + 1
        self.world.ask(request, preset, kind, self.world.now - age)

    def pick(self, data, choices):
        self.world.now += 0.25
        return data.draw(st.sampled_from(sorted(choices)))

    def some(self, test):
        return [number for number, child in self.world.children.items() if test(child)]

    def leased(self):
        return [request for child in self.world.children.values() for request in child.leases]

    def looks(self):
        return [request for child in self.world.children.values() for request in child.looks]

    def any_child(self):
        return bool(self.world.children)

    # Requests -----------------------------------------------------------------

    @rule(
        data=st.data(),
        kind=st.sampled_from([Kind.POST] * 5 + [Kind.WEBSOCKET, Kind.LOAD, Kind.STARTUP, Kind.GET]),
        age=st.sampled_from([0.0, 0.0, 5.0, 20.0]),
    )
    def request_arrives(self, data, kind, age):
        self.ask(self.pick(data, NAMES), kind, age)

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data(), how=st.sampled_from([Cancelled, Abandoned]))
    def client_gives_up_waiting(self, data, how):
        request = self.pick(data, self.world.waiting)
        del self.world.waiting[request]
        self.world.tell(how(request))

    @precondition(lambda self: self.leased())
    @rule(data=st.data(), how=st.sampled_from([Released, Released, Cancelled]))
    def request_is_answered(self, data, how):
        request = self.pick(data, self.leased())
        self.world.release(request)
        self.world.tell(how(request))

    @precondition(lambda self: self.looks())
    @rule(data=st.data(), how=st.sampled_from([Released, Cancelled]))
    def look_ends(self, data, how):
        request = self.pick(data, self.looks())
        for child in self.world.children.values():
            child.looks.pop(request, None)
        self.world.tell(how(request))

    @precondition(lambda self: self.leased())
    @rule(data=st.data())
    def client_leaves_the_child_at_work(self, data):
        request = self.pick(data, self.leased())
        self.world.holder(request).unread.add(request)
        self.world.tell(Abandoned(request))

    @precondition(lambda self: self.some(lambda c: len(c.unread) > c.finished_unread))
    @rule(data=st.data())
    def child_finishes_an_unread_answer(self, data):
        unseen = self.some(lambda c: len(c.unread) > c.finished_unread)
        number = data.draw(st.sampled_from(unseen))
        self.world.children[number].finished_unread += 1

    @precondition(any_child)
    @rule(data=st.data())
    def slots_are_read(self, data):
        number = self.pick(data, self.world.children)
        child = self.world.children[number]
        busy = len(child.leases) - child.finished_unread
        for request in sorted(child.unread)[: child.finished_unread]:
            self.world.release(request)
        child.finished_unread = 0
        self.world.tell(SlotsSeen(number, busy))

    # Children -----------------------------------------------------------------

    @precondition(lambda self: self.some(lambda c: c.mood == "loading"))
    @rule(data=st.data(), progress=st.sampled_from(["done", "done", None, 0.0, 0.5, 1.0]))
    def child_loads(self, data, progress):
        number = self.pick(data, self.some(lambda c: c.mood == "loading"))
        if progress == "done":
            self.world.ready(number)
        else:
            self.world.get_on(number, progress)

    @precondition(lambda self: self.some(lambda c: c.mood != "sleeping"))
    @rule(data=st.data())
    def child_falls_asleep(self, data):
        self.world.fall_asleep(self.pick(data, self.some(lambda c: c.mood != "sleeping")))

    @precondition(lambda self: self.some(lambda c: c.mood == "sleeping"))
    @rule(data=st.data())
    def child_wakes_by_itself(self, data):
        self.world.wake_by_itself(self.pick(data, self.some(lambda c: c.mood == "sleeping")))

    @precondition(lambda self: self.some(lambda c: c.going))
    @rule(data=st.data())
    def stopped_child_exits(self, data):
        self.world.exit(self.pick(data, self.some(lambda c: c.going)), Exit(code=0))

    @precondition(any_child)
    @rule(data=st.data(), exit=exits)
    def child_dies(self, data, exit):
        self.world.exit(self.pick(data, self.world.children), exit)

    @precondition(lambda self: self.some(lambda c: c.has_loaded))
    @rule(data=st.data())
    def child_hangs(self, data):
        self.world.hang(self.pick(data, self.some(lambda c: c.has_loaded)))

    # People and time ----------------------------------------------------------

    def edit(self, presets, renamed=()):
        world = self.world
        for name, target in renamed:
            asks = [ask for ask in world.waiting.values() if ask.preset == name]
            for ask in asks:
                ask.preset = target
            if asks:
                world.clear_failures(target)
        for name, old in world.presets.items():
            if (new := presets.get(name)) is None or new.fingerprint != old.fingerprint:
                world.clear_failures(name)
        world.presets = presets
        for child in world.children.values():
            if (
                spec := presets.get(child.spec.name)
            ) and spec.fingerprint == child.spec.fingerprint:
                child.spec = spec
        world.tell(PresetsChanged(tuple(presets.values()), renamed))

    @rule(data=st.data(), what=st.sampled_from(["save", "pin", "pin", "delete", "name"]))
    def preset_is_edited(self, data, what):
        name = self.pick(data, NAMES)
        presets = dict(self.world.presets)
        if what == "save" or name not in presets:
            presets[name] = replace(data.draw(specs), name=name)
        elif what == "pin":
            presets[name] = replace(presets[name], pinned=not presets[name].pinned)
        elif what == "name":
            self.rename(presets, name, self.pick(data, set(NAMES) - {name}))
            return
        else:
            del presets[name]
        self.edit(presets)

    def rename(self, presets, name, target):
        """To a free name, or so that the old one leads to a preset that is there."""
        old = presets.pop(name)
        presets.setdefault(target, replace(old, name=target))
        self.edit(presets, ((name, target),))

    @rule(data=st.data(), force=st.booleans())
    def person_unloads(self, data, force):
        preset = self.pick(data, NAMES)
        self.world.unloading, self.world.forcing = True, force
        self.world.tell(UnloadAsked(preset, force))
        self.world.unloading = self.world.forcing = False
        assert not self.some(lambda c: c.spec.name == preset and c.staying and c.mood != "loading")

    @rule(data=st.data())
    def person_applies_an_edit(self, data):
        preset = self.pick(data, NAMES)
        self.world.tell(ApplyAsked(preset))
        assert not self.some(lambda c: c.spec.name == preset and c.staying and self.stale(c))

    @rule(seconds=st.sampled_from([None, None, 0.5, 3.0, 12.0, 31.0]))
    def time_passes(self, seconds):
        """To the timer that was set, or by so many seconds."""
        timer = self.world.timer or 0.0
        if seconds is None and timer > self.world.now:
            self.world.now = timer
        else:
            self.world.now += seconds or 0.25
        self.world.tell(Ticked())

    @precondition(lambda self: self.next_request > 15 and not self.world.shut)
    @rule()
    def shutdown_is_asked(self):
        self.world.shut = True
        self.world.tell(ShutdownAsked())
        assert not self.world.waiting

    @rule(data=st.data())
    def something_comes_late_or_twice(self, data):
        known = sorted(self.world.waiting) or [1]
        living = sorted(self.world.children)
        live = {*known, *self.leased(), *self.looks()}
        stray = [request for request in range(1, self.next_request) if request not in live]
        events = [Exited(999), ReadyReported(999), SlotsSeen(999, 0), Released(999), Silent(999)]
        events += [Requested(known[0], "a", self.world.now)] if self.world.waiting else []
        events += [how(request) for request in stray for how in (Released, Abandoned)]
        events += [LoadingReported(n) for n in living if self.world.children[n].mood == "loaded"]
        events += [ReadyReported(n) for n in living if self.world.children[n].mood == "loaded"]
        events += [SleepingReported(n) for n in living if self.world.children[n].mood == "sleeping"]
        self.world.tell(data.draw(st.sampled_from(events)))

    # Invariants: each is a sentence of the design -------------------------------

    @invariant()
    def a5_processes_alive_never_exceed_models_max(self):
        limit = self.world.config.models_max
        assert not limit or len(self.world.children) <= limit

    @invariant()
    def a8_leases_never_exceed_the_places_abandoned_ones_counted(self):
        for child in self.world.children.values():
            assert len(child.leases) <= self.world.places(child)

    def stale(self, child):
        return not self.world.runs_its_preset(child)

    @invariant()
    def what_is_stale_goes_once_nobody_reads_from_it(self):
        """A deleted preset's drains at once; an edited one's serves while it is busy."""
        for number in self.some(lambda c: c.staying and self.stale(c)):
            child = self.world.children[number]
            assert child.spec.name in self.world.presets
            assert child.leases - child.unread

    @invariant()
    def nobody_waits_while_a_slot_is_free(self):
        for ask in self.world.waiting.values():
            child = self.world.staying(ask.preset)
            if child is not None and child.mood == "loaded":
                assert ask.kind in WORK, "a load or a look holds no slot"
                assert len(child.leases) == self.world.places(child)

    @invariant()
    def no_wake_up_is_lost(self):
        """Who waits waits for something: a load, an exit, the end of an answer, or a time."""
        world = self.world
        if world.waiting and not self.some(lambda c: c.mood == "loading" or c.going or c.leases):
            assert world.timer is not None
            assert world.timer > world.now

    @invariant()
    def the_head_has_a_loader_or_room_on_its_way(self):
        """Nobody stands before an open door: the head waits for a loader, or for a slot that is
        not there, and then for a victim unless none may go."""
        world = self.world
        pending = world.pending() if not world.shut else []
        if not pending or world.loading(beside=False) >= world.config.models_max_loading:
            return
        head = pending[0]
        if world.startup_only(head) and self.some(lambda c: c.startup and c.mood == "loading"):
            return
        assert world.staying(head) is None, "a wake needs no slot"
        assert world.config.models_max or head in world.room, "no slot is missing"
        if not world.startup_only(head):
            assert head in world.room or world.free() >= 1 or not world.eligible(head, surely=True)

    @invariant()
    def a6_a_busy_model_drains_for_the_head_when_its_time_has_come(self):
        """... and a timer is set for that time."""
        world = self.world
        pending = world.pending() if not world.shut else []
        if not pending or world.startup_only(pending[0]) or world.staying(pending[0]):
            return
        head = pending[0]
        if world.loading(beside=False) >= world.config.models_max_loading:
            return  # room is made only when it can be used
        leaves = self.some(lambda c: c.draining and c.drain_for is None)
        if leaves or head in world.room or not world.config.models_max or world.free() >= 1:
            return
        for child in world.children.values():
            if child.staying and child.mood == "loaded" and not child.spec.pinned:
                due = max(world.drains(child, head).last, world.now)
                assert due > world.now, "A6: its time has come, and it does not make way"
                assert world.timer is not None
                assert world.now < world.timer <= due, "A6: nobody looks when its time has come"

    @invariant()
    def a3_each_drain_is_for_an_entry_that_needs_it(self):
        world = self.world
        for number in self.some(lambda c: c.drain_reason is Reason.EVICTED and not c.going):
            child = world.children[number]
            assert not child.spec.pinned
            assert world.room.get(child.drain_for) == number, "A3: a drain for nobody"
            if child.drain_for == world.pending()[0]:
                assert not world.eligible(child.drain_for, surely=True), "A3: an idle one turned up"

    @invariant()
    def v5_what_is_idle_for_its_keep_alive_goes(self):
        world = self.world
        for number in self.some(lambda c: c.staying and c.mood != "loading" and not c.leases):
            child = world.children[number]
            keep = world.keep_alive(child.spec)
            wanted = child.spec.pinned or world.place(child.spec.name) is not None
            waits_for_use = keep == 0 and not (child.used or child.unwanted)
            if keep is None or wanted or waits_for_use or world.shut:
                continue
            due = child.restless_at + keep
            assert due > world.now, "V5: idle for too long"
            assert world.timer is not None
            assert world.now < world.timer <= due

    @invariant()
    def a8_a_look_ends_in_time(self):
        world = self.world
        for child in world.children.values():
            for began in child.looks.values():
                assert world.now < world.timer <= began + world.config.look_seconds

    @invariant()
    def options_equal_again_undo_a_drain(self):
        for child in self.world.children.values():
            edited = child.drain_reason in (Reason.REPLACED, Reason.REMOVED)
            if child.draining and not child.going and edited:
                replaced = self.world.staying(child.spec.name) is not None
                assert replaced or not self.world.runs_its_preset(child)

    @invariant()
    def a_drain_ends_with_its_last_reader(self):
        assert not self.some(lambda c: c.draining and not c.read_by_someone and not c.going)

    @invariant()
    def the_stubborn_are_killed_in_time(self):
        for child in self.world.children.values():
            if child.asked_at is not None and not child.killed:
                assert child.overdue_at > self.world.now
                assert self.world.timer is not None
                assert self.world.now < self.world.timer <= child.overdue_at

    @invariant()
    def a_load_that_does_not_get_on_is_killed_in_time(self):
        for child in self.world.children.values():
            if (due := self.world.stalls_at(child)) is not None:
                assert self.world.timer is not None
                assert self.world.now < self.world.timer <= due

    def teardown(self):
        if hasattr(self, "world") and self.world.sound:
            self.replay_gives_the_same_decisions()
            self.everyone_is_answered_once_the_world_cooperates()

    def replay_gives_the_same_decisions(self):
        fresh = Planner(self.world.config)
        for event, now, decisions in self.world.log:
            assert fresh.handle(event, now) == decisions

    def everyone_is_answered_once_the_world_cooperates(self):
        self.cooperate()
        assert not self.world.waiting, f"starved: {self.world.waiting}"
        assert not self.world.planner.entries(self.world.now)

    def cooperate(self):
        world = self.world
        for _ in range(500):
            world.now += 0.01
            if going := self.some(lambda c: c.going):
                world.exit(going[0], Exit(code=0))
            elif loading := self.some(lambda c: c.mood == "loading" and c.staying):
                world.ready(loading[0])
            elif leased := self.leased():
                world.release(leased[0])
                world.tell(Released(leased[0]))
            elif world.waiting and world.timer is not None and world.timer > world.now:
                world.now = world.timer
                world.tell(Ticked())
            else:
                break


TestPlanner = PlannerMachine.TestCase
if os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick":
    TestPlanner.settings = settings(max_examples=100, stateful_step_count=40)
else:
    TestPlanner = pytest.mark.timeout(3600)(TestPlanner)
