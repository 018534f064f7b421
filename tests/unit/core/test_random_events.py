"""A great many events, sensible and not, from seeds: no rule may break.

`RANDOM_EVENTS=1000000 pytest tests/unit/core/test_random_events.py` tells a million.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from scheduler.core.values import Config, Kind, PresetSpec

from .happenings import ALWAYS, Happenings, any_config

EVENTS = int(os.environ.get("RANDOM_EVENTS", "100000"))
EVENTS_PER_SEED = 2500
SEEDS = range(max(1, EVENTS // EVENTS_PER_SEED))
REPLAYED = 4
"""One life in so many is decided once more; test_random_order.py does it with each of its own."""

KINDS, WEIGHTS = zip(*ALWAYS, strict=True)


def live(world: Happenings, events: int) -> None:
    """So many events, drawn from all that may happen."""
    while world.referee.told < events:
        world.step()
        world.chance.choices(KINDS, WEIGHTS)[0](world)
        if world.referee.told % 50 == 0:
            world.referee.check_entries()


@pytest.mark.timeout(3600 if EVENTS > 100_000 else 300)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_rule_breaks_whatever_happens(seed):
    chance = Random(seed)
    names = "abcdefghijkl"[: chance.choice([2, 3, 4, 6, 12])]
    world = Happenings(any_config(chance), chance, names=names)

    live(world, EVENTS_PER_SEED)

    world.everyone_is_answered_once_the_world_cooperates()
    if seed % REPLAYED == 0:
        world.referee.check_replay()


@pytest.mark.parametrize("seed", range(max(8, len(SEEDS) // 5)))
def test_no_rule_breaks_where_groups_keep_presets_apart(seed):
    chance = Random(50_000 + seed)
    names = "abcdefgh"[: chance.choice([3, 5, 8])]
    world = Happenings(any_config(chance), chance, names=names, grouped=True)

    live(world, EVENTS_PER_SEED)

    world.everyone_is_answered_once_the_world_cooperates()
    world.referee.check_replay()


@pytest.mark.parametrize("seed", range(6))
def test_no_wish_of_a_client_shortens_what_another_tenant_counts_on(seed):
    """The referee knows each one's wish, and judges every idle end."""
    chance = Random(70_000 + seed)
    world = Happenings(any_config(chance), chance, names="abcd")
    kinds, weights = zip(*ALWAYS, (Happenings.tenant_wishes, 12), strict=True)

    while world.referee.told < EVENTS_PER_SEED:
        world.step()
        world.chance.choices(kinds, weights)[0](world)

    world.everyone_is_answered_once_the_world_cooperates()
    world.referee.check_replay()


@pytest.mark.parametrize("seed", range(4))
def test_a_clock_that_goes_back_breaks_nothing_but_durations(seed):
    """Monotonic clocks do not; a recorded log that was put together by hand may."""
    chance = Random(1000 + seed)
    world = Happenings(any_config(chance), chance, keeps_time=False)

    for _ in range(20):
        live(world, world.referee.told + 50)
        world.referee.now -= chance.choice([0.001, 1.0, 40.0, 5000.0])

    world.referee.now += 20_000.0
    world.everyone_is_answered_once_the_world_cooperates()


def test_ten_thousand_waiters_for_two_hundred_models_are_all_answered():
    chance = Random(7)
    config = Config(
        models_max=4,
        queue_limit=20_000,
        queue_limit_per_tenant=20_000,
        queue_wait_seconds=1e9,
        max_priority_jump_seconds=1e9,  # the bound is judged elsewhere: it costs each grant a look
    )
    world = Happenings(config, chance, names="a")
    names = [f"m{n}" for n in range(200)]
    world.change_presets({name: PresetSpec(name, "two", 2) for name in names})
    for _ in range(10_000):
        world.referee.now += 0.001
        world.ask(chance.choice(names), Kind.POST)
    assert len(world.referee.waiting) == 10_000

    world.everyone_is_answered_once_the_world_cooperates()


def test_all_that_wait_are_told_when_the_house_is_shut():
    chance = Random(11)
    world = Happenings(any_config(chance), chance)
    live(world, 500)

    world.shutdown_is_asked()
    live(world, 1000)

    assert not world.referee.waiting
