"""Many tenants, classes, sizes and devices at once, shrunk to a short story when a rule breaks.

test_planner_machine.py knows the exact order of one tenant's requests; here the order is the
planner's own, and its bounds are judged: nobody is overtaken by who came two whole jumps later,
no instance takes more leases than it may, no drain begins too early, nothing starts without room,
the same events give the same decisions, and everybody is answered once the world cooperates.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from .happenings import ALWAYS, Happenings, any_config

HAPPENINGS = [happening for happening, often in ALWAYS for _ in range(often)]


class FairMachine(RuleBasedStateMachine):
    @initialize(chance=st.randoms(use_true_random=False))
    def machine_boots(self, chance):
        self.world = Happenings(any_config(chance), chance)

    @rule(happens=st.sampled_from(HAPPENINGS))
    def something_happens(self, happens):
        self.world.step()
        happens(self.world)

    @precondition(lambda self: self.world.requests > 25 and not self.world.referee.shut)
    @rule()
    def shutdown_is_asked(self):
        self.world.shutdown_is_asked()

    @invariant()
    def each_waiter_is_in_an_entry(self):
        if hasattr(self, "world"):
            self.world.referee.check_entries()

    def teardown(self):
        if hasattr(self, "world") and self.world.referee.sound:
            self.world.referee.check_replay()
            self.world.everyone_is_answered_once_the_world_cooperates()


TestFairPlanner = FairMachine.TestCase
if os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick":
    TestFairPlanner.settings = settings(max_examples=100, stateful_step_count=50)
else:
    TestFairPlanner = pytest.mark.timeout(3600)(TestFairPlanner)
