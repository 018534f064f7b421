"""Any course of requests, ends, tries and clocks: limits let in exactly those who may come in, by
the judgement of a referee that keeps the whole history and counts it anew each time."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .limits_world import HAPPENINGS, LimitsWorld

STORIES = int(os.environ.get("RANDOM_EVENTS", 12_000)) // 60


def test_any_course_of_events_is_counted_as_the_referee_counts_it():
    for seed in range(STORIES):
        chance = Random(seed)
        world = LimitsWorld(chance)
        try:
            for _ in range(60):
                chance.choice(HAPPENINGS)(world)
                world.check()
        except AssertionError as wrong:
            raise AssertionError(f"story {seed}, now {world.now}: {wrong}") from wrong


class LimitsMachine(RuleBasedStateMachine):
    @initialize(chance=st.randoms(use_true_random=False))
    def there_are_rows(self, chance):
        self.world = LimitsWorld(chance)

    @rule(happens=st.sampled_from(HAPPENINGS))
    def something_happens(self, happens):
        happens(self.world)

    @invariant()
    def it_is_counted_as_the_referee_counts_it(self):
        if hasattr(self, "world"):
            self.world.check()


TestLimits = LimitsMachine.TestCase
if os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick":
    TestLimits.settings = settings(max_examples=30, stateful_step_count=40)
else:
    TestLimits = pytest.mark.timeout(3600)(TestLimits)
