"""The exact order of one tenant's requests, over more events than Hypothesis tries: from seeds."""

from __future__ import annotations

import os
from random import Random

import pytest

from scheduler.core.events import Abandoned, Cancelled, Released
from scheduler.core.values import Config, Exit, Kind

from .planner_rules import NAMES, PARALLEL, spec
from .test_planner_machine import PlannerMachine

EVENTS = int(os.environ.get("RANDOM_EVENTS", "100000")) // 4
EVENTS_PER_SEED = 500
EDITS = ["save"] * 4 + ["pin"] * 6 + ["delete", "name"]


class Dice(PlannerMachine):
    """Hypothesis' machine without Hypothesis: what it draws is thrown."""

    def throw(self, chance: Random) -> None:
        self.chance = chance
        some = [self.any_spec(None) for _ in NAMES]
        used = [(self.choose(None, NAMES), chance.random() < 0.5) for _ in range(4)]
        self.machine_boots(self.any_config(), some, used)

    def choose(self, data, options):
        return self.chance.choice(options)

    def any_spec(self, data):
        pick = self.chance.choice
        return spec(
            "a",
            pick(sorted(PARALLEL)),
            pick([False] * 5 + [True]),
            pick([10.0, 10.0, 10.0, 0.0]),
            max_wait_seconds=pick([None, None, 2.0]),
            min_residency_seconds=pick([None, None, 1.0]),
            keep_alive_seconds=pick([None] * 4 + [0.0, 5.0]),
            queue_limit=pick([None, None, 3]),
        )

    def any_config(self) -> Config:
        pick = self.chance.choice
        return Config(
            models_max=pick([1, 2, 2, 2, 3, 0]),
            models_max_loading=pick([1, 1, 2]),
            queue_limit=pick([6, 50]),
            queue_limit_per_preset=pick([0, 0, 4]),
            queue_wait_seconds=pick([30.0, 600.0]),
            max_wait_seconds=pick([0.0, 5.0, 30.0]),
            quantum_seconds=pick([0.0, 2.0, 30.0]),
            min_residency_seconds=pick([0.0, 0.0, 4.0]),
            keep_alive_seconds=pick([None] * 4 + [0.0, 10.0]),
            oversubscribe=pick([1.0, 1.0, 2.0]),
            load_stall_seconds=pick([10.0, 300.0, 300.0, 300.0]),
        )

    def live(self, events: int) -> None:
        """So many steps; after each, all that must be so is so."""
        steps, weights = zip(*self.steps(), strict=True)
        while len(self.world.log) < events:
            self.chance.choices(steps, weights)[0]()
            self.every_rule_holds()

    def steps(self):
        """What may happen, and how often it does."""
        pick, world = self.chance.choice, self.world
        kinds = [Kind.POST] * 7 + [Kind.WEBSOCKET, Kind.LOAD, Kind.STARTUP, Kind.GET]
        exits = [Exit(code=1), Exit(signal=9), Exit(code=1, out_of_memory=True)]

        def when(test, happens):
            return lambda: happens() if test() else None

        def some(test):
            return lambda: bool(self.some(test))

        loading, going = some(lambda c: c.mood == "loading"), some(lambda c: c.going)
        return [
            (lambda: self.request_arrives(None, pick(kinds), pick([0.0, 0.0, 5.0, 20.0])), 30),
            (
                when(
                    lambda: world.waiting,
                    lambda: self.client_gives_up_waiting(None, pick([Cancelled, Abandoned])),
                ),
                4,
            ),
            (
                when(
                    self.leased,
                    lambda: self.request_is_answered(None, pick([Released, Released, Cancelled])),
                ),
                14,
            ),
            (when(self.looks, lambda: self.look_ends(None, Released)), 2),
            (when(self.leased, lambda: self.client_leaves_the_child_at_work(None)), 2),
            (
                when(
                    some(lambda c: len(c.unread) > c.finished_unread),
                    lambda: self.child_finishes_an_unread_answer(None),
                ),
                2,
            ),
            (when(self.any_child, lambda: self.slots_are_read(None)), 2),
            (when(loading, lambda: self.child_loads(None, pick(["done", "done", None, 0.5]))), 16),
            (
                when(
                    some(lambda c: c.mood != "sleeping"),
                    lambda: self.child_falls_asleep(None),
                ),
                2,
            ),
            (
                when(
                    some(lambda c: c.mood == "sleeping"),
                    lambda: self.child_wakes_by_itself(None),
                ),
                1,
            ),
            (when(going, lambda: self.stopped_child_exits(None)), 10),
            (when(self.any_child, lambda: self.child_dies(None, pick(exits))), 1),
            (when(some(lambda c: c.has_loaded), lambda: self.child_hangs(None)), 1),
            (
                lambda: self.preset_is_edited(None, pick(EDITS)),
                2,
            ),
            (lambda: self.person_unloads(None, pick([False, True])), 1),
            (lambda: self.person_applies_an_edit(None), 1),
            (lambda: self.time_passes(pick([None, None, 0.5, 3.0, 12.0, 31.0])), 5),
            (lambda: self.something_comes_late_or_twice(None), 2),
        ]


@pytest.mark.timeout(3600 if EVENTS > 25_000 else 300)
@pytest.mark.parametrize("seed", range(max(1, EVENTS // EVENTS_PER_SEED)))
def test_the_order_is_kept_whatever_happens(seed):
    machine = Dice()
    machine.throw(Random(seed))

    machine.live(EVENTS_PER_SEED)

    machine.replay_gives_the_same_decisions()
    machine.everyone_is_answered_once_the_world_cooperates()
