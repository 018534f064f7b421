"""The planner against a model of the outside world, driven by Hypothesis.

One tenant and one class, so that the order of the queue is known: plain first come, first served.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant

from scheduler.core.decisions import Reason
from scheduler.core.planner import Planner

from .outside import WORK
from .planner_rules import WhatHappens


class PlannerMachine(WhatHappens):
    def a5_processes_alive_never_exceed_models_max(self):
        limit = self.world.config.models_max
        assert not limit or len(self.world.children) <= limit

    def a8_leases_never_exceed_the_places_abandoned_ones_counted(self):
        for child in self.world.children.values():
            assert len(child.leases) <= self.world.places(child)

    def what_is_stale_goes_once_nobody_reads_from_it(self):
        """A deleted preset's drains at once; an edited one's serves while it is busy."""
        for number in self.some(lambda c: c.staying and self.stale(c)):
            child = self.world.children[number]
            assert child.spec.name in self.world.presets
            assert child.leases - child.unread

    def nobody_waits_while_a_slot_is_free(self):
        for ask in self.world.waiting.values():
            child = self.world.staying(ask.preset)
            if child is not None and child.mood == "loaded":
                assert ask.kind in WORK, "a load or a look holds no slot"
                assert len(child.leases) == self.world.places(child)

    def no_wake_up_is_lost(self):
        """Who waits waits for something: a load, an exit, the end of an answer, or a time."""
        world = self.world
        if world.waiting and not self.some(lambda c: c.mood == "loading" or c.going or c.leases):
            assert world.timer is not None
            assert world.timer > world.now

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

    def a3_each_drain_is_for_an_entry_that_needs_it(self):
        world = self.world
        for number in self.some(lambda c: c.drain_reason is Reason.EVICTED and not c.going):
            child = world.children[number]
            if world.staying(child.spec.name) is not None:
                continue  # its own waiters have another one by now: there is no way back
            assert not child.spec.pinned
            assert world.room.get(child.drain_for) == number, "A3: a drain for nobody"
            if child.drain_for == world.pending()[0]:
                assert not world.eligible(child.drain_for, surely=True), "A3: an idle one turned up"
                assert not world.is_covered_otherwise(number), "A3: it is not needed any more"

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

    def a8_a_look_ends_in_time(self):
        world = self.world
        for child in world.children.values():
            for began in child.looks.values():
                assert world.now < world.timer <= began + world.config.look_seconds

    def options_equal_again_undo_a_drain(self):
        for child in self.world.children.values():
            edited = child.drain_reason in (Reason.REPLACED, Reason.REMOVED)
            if child.draining and not child.going and edited:
                replaced = self.world.staying(child.spec.name) is not None
                assert replaced or not self.world.runs_its_preset(child)

    def a_drain_ends_with_its_last_reader(self):
        assert not self.some(lambda c: c.draining and not c.read_by_someone and not c.going)

    def the_stubborn_are_killed_in_time(self):
        for child in self.world.children.values():
            if child.asked_at is not None and not child.killed:
                assert child.overdue_at > self.world.now
                assert self.world.timer is not None
                assert self.world.now < self.world.timer <= child.overdue_at

    def a_load_that_does_not_get_on_is_killed_in_time(self):
        for child in self.world.children.values():
            if (due := self.world.stalls_at(child)) is not None:
                assert self.world.timer is not None
                assert self.world.now < self.world.timer <= due

    @invariant()
    def every_rule_holds(self):
        for holds in EACH_IS_A_SENTENCE_OF_THE_DESIGN:
            holds(self)

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


EACH_IS_A_SENTENCE_OF_THE_DESIGN = (
    PlannerMachine.a5_processes_alive_never_exceed_models_max,
    PlannerMachine.a8_leases_never_exceed_the_places_abandoned_ones_counted,
    PlannerMachine.what_is_stale_goes_once_nobody_reads_from_it,
    PlannerMachine.nobody_waits_while_a_slot_is_free,
    PlannerMachine.no_wake_up_is_lost,
    PlannerMachine.the_head_has_a_loader_or_room_on_its_way,
    PlannerMachine.a6_a_busy_model_drains_for_the_head_when_its_time_has_come,
    PlannerMachine.a3_each_drain_is_for_an_entry_that_needs_it,
    PlannerMachine.v5_what_is_idle_for_its_keep_alive_goes,
    PlannerMachine.a8_a_look_ends_in_time,
    PlannerMachine.options_equal_again_undo_a_drain,
    PlannerMachine.a_drain_ends_with_its_last_reader,
    PlannerMachine.the_stubborn_are_killed_in_time,
    PlannerMachine.a_load_that_does_not_get_on_is_killed_in_time,
)

TestPlanner = PlannerMachine.TestCase
if os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick":
    TestPlanner.settings = settings(max_examples=100, stateful_step_count=40)
else:
    TestPlanner = pytest.mark.timeout(3600)(TestPlanner)
