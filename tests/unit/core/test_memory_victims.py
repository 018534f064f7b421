"""V3: who goes for a shortage of memory. Sizes are what presets need; the ledger comes later."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Drain, Reason
from scheduler.core.events import AllocationReported, DevicesRead
from scheduler.core.sizes import DeviceReading, Need
from scheduler.core.values import Exit, VictimPolicy

from .story import Story, codes, preset, refused, started

POLICIES = sorted(VictimPolicy)


def sized(name: str, gpu: int = 0, host: int = 0, **options):
    need = tuple((device, size) for device, size in (("gpu", gpu), ("host", host)) if size)
    return preset(name, need=need, **options)


def machine(*presets, gpu: int, host: int | None = None, idle: str = "", **config) -> Story:
    """The idle ones were used in that order."""
    story = Story(*presets, models_max=0, **config)
    story.devices(gpu=gpu, **({} if host is None else {"host": host}))
    for request, name in enumerate(idle, start=100):
        story.idle(request, name)
    return story


def victims(decisions) -> list[int]:
    assert all(d.reason is Reason.EVICTED for d in decisions if isinstance(d, AskExit))
    return [d.instance for d in decisions if isinstance(d, AskExit)]


# What fits ------------------------------------------------------------------------------


def test_a_start_takes_its_need_from_the_device_until_its_exit():
    story = machine(sized("a", 6), sized("b", 6), gpu=10, idle="a")
    assert victims(story.ask(1, "b")) == [1]

    assert story.wait(5) == []
    assert started(story.exit(1)) == ["b"]


def test_nobody_goes_where_there_is_room():
    story = machine(sized("a", 6), sized("b", 4), gpu=10, idle="a")

    assert started(story.ask(1, "b")) == ["b"]


def test_a_device_that_was_never_read_limits_nothing():
    story = machine(sized("a", host=600), sized("b", host=600), gpu=10, idle="a")

    assert started(story.ask(1, "b")) == ["b"]


def test_a_preset_without_a_need_takes_nothing():
    story = machine(sized("a", 10), "b", gpu=10, idle="a")

    assert started(story.ask(1, "b")) == ["b"]


def test_each_device_must_have_room():
    story = machine(sized("a", 2, 8), sized("b", 2, 8), gpu=100, host=10, idle="a")

    assert victims(story.ask(1, "b")) == [1]


@pytest.mark.parametrize("how", ["bigger", "read anew"])
def test_what_would_not_fit_on_an_empty_machine_is_refused_with_what_is_missing(how):
    story = machine(sized("a", 2), sized("b", 12, 5), gpu=10 if how == "bigger" else 20, idle="a")
    if how == "read anew":
        story.devices(gpu=10)

    answer = story.ask(1, "b")

    assert codes(answer) == {1: "model_too_large"}
    assert refused(answer)[1].short == (("gpu", 2),)
    assert story.of("a").state == "loaded"


def test_pins_that_leave_too_little_are_named():
    story = machine(sized("a", 6, pinned=True), sized("b", 6), sized("c", 3), gpu=10, idle="ac")

    answer = story.ask(1, "b")

    assert codes(answer) == {1: "blocked_by_pinned"}
    assert refused(answer)[1].blocked_by == ("a",)
    assert story.of("c").state == "loaded"


def test_a_pin_on_another_device_blocks_nobody():
    story = machine(
        sized("a", host=6, pinned=True), sized("b", 6), sized("c", 6), gpu=10, host=8, idle="ac"
    )

    assert victims(story.ask(1, "b")) == [2]


def test_memory_that_is_read_to_have_grown_lets_the_head_load():
    story = machine(sized("a", 6), sized("b", 6), gpu=10)
    story.busy(1, "a")
    story.ask(2, "b")

    assert started(story.devices(gpu=12)) == ["b"]


def test_memory_that_is_read_to_have_shrunk_cuts_nobody():
    story = machine(sized("a", 6), gpu=10)
    story.busy(1, "a")

    assert story.devices(gpu=2) == []


# Who goes -------------------------------------------------------------------------------


def test_one_that_suffices_goes_before_several():
    """24 in all: a holds 14, b holds 8; c needs 12."""
    story = machine(sized("a", 14), sized("b", 8), sized("c", 12), gpu=24, idle="ba")

    assert victims(story.ask(1, "c")) == [story.of("a").id]


def test_of_two_that_suffice_the_smaller_goes():
    policy = VictimPolicy.LRU
    sizes = sized("a", 14), sized("b", 10), sized("c", 9)
    story = machine(*sizes, gpu=24, idle="ab", victim_policy=policy)

    assert victims(story.ask(1, "c")) == [2]


@pytest.mark.parametrize("idle", ["ab", "ba"])
def test_of_two_that_are_the_same_the_least_recently_used_goes(idle):
    story = machine(sized("a", 10), sized("b", 10), sized("c", 8), gpu=20, idle=idle)

    assert victims(story.ask(1, "c")) == [story.of(idle[0]).id]


@pytest.mark.parametrize("policy", POLICIES)
def test_where_one_does_not_suffice_no_more_go_than_are_needed(policy):
    story = machine(
        *(sized(name, 5) for name in "abcd"),
        sized("e", 10),
        gpu=20,
        idle="abcd",
        victim_policy=policy,
    )

    asked = victims(story.ask(1, "e"))

    assert len(asked) == 2
    assert story.wait(5) == []
    assert started(story.exit(asked[0])) == []
    assert started(story.exit(asked[1])) == ["e"]


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_goes_who_does_not_help(policy):
    """d was used longest ago, and its 2 are not needed once a and b have gone."""
    story = machine(
        sized("a", 6),
        sized("b", 6),
        sized("c", 12),
        sized("d", 2),
        gpu=14,
        idle="dab",
        victim_policy=policy,
    )

    asked = victims(story.ask(1, "c"))

    assert sorted(asked) == [story.of("a").id, story.of("b").id]


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_goes_who_holds_nothing_where_something_is_missing(policy):
    story = machine(
        sized("a", host=6),
        sized("b", 6),
        sized("c", 6),
        gpu=10,
        host=10,
        idle="ab",
        victim_policy=policy,
    )

    assert victims(story.ask(1, "c")) == [2]


def test_what_is_leaving_already_counts():
    story = machine(sized("a", 6), sized("b", 4), sized("c", 6), gpu=10, idle="ab")
    story.edit(sized("b", 4), sized("c", 6))
    assert story.of("a").state == "stopping"

    assert story.ask(1, "c") == []
    assert started(story.exit(1)) == ["c"]


def test_nobody_goes_for_what_would_not_fit_though_all_the_idle_went():
    story = machine(sized("a", 6), sized("b", 4), sized("c", 8), gpu=12, max_wait_seconds=100)
    story.busy(1, "a")
    story.idle(2, "b")

    assert victims(story.ask(3, "c")) == []
    assert story.of("b").state == "loaded"


def test_a_busy_one_drains_where_the_idle_do_not_suffice():
    story = machine(sized("a", 6), sized("b", 4), sized("c", 12), gpu=12, max_wait_seconds=0)
    story.busy(1, "a")
    story.idle(2, "b")

    answer = story.ask(3, "c")
    assert Drain(1, Reason.EVICTED, "c") in answer
    answer += story.release(1)

    assert sorted(victims(answer)) == [1, 2]
    assert started(story.exit(1)) + started(story.exit(2)) == ["c"]


def test_no_more_drain_than_are_needed():
    story = machine(*(sized(n, 5) for n in "abc"), sized("d", 5), gpu=15, max_wait_seconds=0)
    for request, name in enumerate("abc", start=1):
        story.busy(request, name)
    story.ask(4, "d")

    told = [decision for _, decision in story.through(200)]

    assert told == []
    assert [story.of(name).state for name in "abc"].count("draining") == 1


def test_a_drain_for_memory_is_undone_when_enough_was_freed_otherwise():
    story = machine(*(sized(n, 5) for n in "abc"), sized("d", 5), gpu=15, max_wait_seconds=0)
    for request, name in enumerate("abc", start=1):
        story.busy(request, name)
    [drain] = story.ask(4, "d")
    other = next(n for n in (1, 2, 3) if n != drain.instance)

    answer = story.exit(other, Exit(code=1))

    assert started(answer) == ["d"]
    assert story.planner.instances[drain.instance].state == "loaded"


def test_who_comes_ahead_gets_memory_of_its_own():
    """a's 10 are c's 6 and 4 more: 2 are missing for d."""
    sizes = sized("a", 10), sized("b", 4), sized("c", 6), sized("d", 6)
    story = machine(*sizes, gpu=14, idle="ab")
    assert victims(story.ask(1, "c")) == [1]

    assert victims(story.ask(2, "d", arrived=0.5)) == [2]
    assert started(story.exit(1)) == ["c"]
    story.ready("c")
    assert started(story.exit(2)) == ["d"]


def test_a_sleeper_holds_what_its_process_still_has():
    story = machine(sized("a", 6), sized("b", 6), sized("c", 4), gpu=10)
    story.sleeping(1, "a")
    assert started(story.ask(2, "b")) == ["b"]
    story.ready("b")

    story.tell(AllocationReported(1, Need((("gpu", 1),))))

    assert victims(story.ask(3, "c")) == [1]


def test_a_wake_needs_no_memory_anew():
    story = machine(sized("a", 10), gpu=10)
    story.sleeping(1, "a")

    assert [type(d).__name__ for d in story.ask(2, "a")] == ["Wake"]


# Cost -----------------------------------------------------------------------------------


def test_by_cost_what_loads_again_soonest_goes():
    story = machine(
        sized("a", 10, load_seconds=300.0),
        sized("b", 10, load_seconds=3.0),
        sized("c", 8),
        gpu=20,
        idle="ab",
        victim_policy=VictimPolicy.COST,
    )

    assert victims(story.ask(1, "c")) == [2]


def test_by_cost_what_was_not_used_for_long_goes_first_of_two_that_load_alike():
    story = machine(
        *(sized(name, 10, load_seconds=30.0) for name in "ab"),
        sized("c", 8),
        gpu=20,
        idle="a",
        victim_policy=VictimPolicy.COST,
    )
    story.wait(600)
    story.idle(1, "b")

    assert victims(story.ask(2, "c")) == [1]


def test_how_long_a_model_takes_to_load_is_learned_for_the_cost():
    story = machine(*(sized(name, 10) for name in "abc"), gpu=20, victim_policy=VictimPolicy.COST)
    story.ask(1, "a")
    story.wait(200)
    story.ready("a")
    story.release(1)
    story.idle(2, "b")

    assert victims(story.ask(3, "c")) == [2]


@pytest.mark.parametrize("policy", POLICIES)
def test_by_count_it_does_not_matter_what_a_load_costs(policy):
    story = Story(
        preset("a", load_seconds=300.0),
        preset("b", load_seconds=1.0),
        "c",
        models_max=2,
        victim_policy=policy,
    )
    story.idle(1, "a")
    story.idle(2, "b")

    assert victims(story.ask(3, "c")) == [1]


def test_where_both_slots_and_memory_are_missing_one_victim_that_mends_both_is_enough():
    story = Story(sized("a", 6), sized("b", 6), sized("c", 6), models_max=2)
    story.devices(gpu=12)
    story.idle(1, "a")
    story.idle(2, "b")

    assert victims(story.ask(3, "c")) == [1]
    assert story.wait(5) == []
    assert started(story.exit(1)) == ["c"]


# Devices that serve one process at a time -------------------------------------------------


def test_an_rpc_server_is_one_instances_alone():
    story = Story(sized("a", 2), sized("b", 2), models_max=0)
    story.tell(DevicesRead((DeviceReading("gpu", total=10, free=10, exclusive=True),)))
    story.idle(100, "a")

    assert victims(story.ask(1, "b")) == [1]
