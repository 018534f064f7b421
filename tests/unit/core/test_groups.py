"""Groups: what is not loaded beside each other, and that nobody starves for it (A6)."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Drain, Reason, Reject, Start, Wake
from scheduler.core.sharing import Sharing, kept_apart
from scheduler.core.values import Code, Kind

from .story import Story, codes, preset, started

TURNS = Sharing("turns", one_at_a_time=True)
ALONE = Sharing("alone", exclusive=True)
STAYS = Sharing("stays", persistent=True)
FREE = Sharing("free")


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (Sharing(), Sharing(), False),
        (FREE, FREE, False),
        (TURNS, TURNS, True),
        (TURNS, Sharing(), False),
        (ALONE, ALONE, False),
        (ALONE, Sharing(), True),
        (ALONE, TURNS, True),
        (ALONE, STAYS, False),
        (ALONE, Sharing("another", exclusive=True), True),
    ],
)
def test_who_is_kept_apart_does_not_depend_on_who_comes_first(one, other, apart):
    assert kept_apart(one, other) is apart
    assert kept_apart(other, one) is apart


def test_of_a_group_that_takes_turns_the_idle_one_goes_though_there_is_room():
    story = Story(preset("a", sharing=TURNS), preset("b", sharing=TURNS), models_max=4)
    story.idle(1, "a")

    assert story.ask(2, "b") == [AskExit(1, Reason.EVICTED, "b")]
    assert started(story.exit(1)) == ["b"]


def test_for_an_exclusive_one_all_idle_ones_go_and_a_persistent_one_stays():
    story = Story("a", "b", preset("s", sharing=STAYS), preset("x", sharing=ALONE), models_max=0)
    for number, name in enumerate(["a", "b", "s"], 1):
        story.idle(number, name)

    asked = story.ask(4, "x")

    assert {d.instance for d in asked if isinstance(d, AskExit)} == {1, 2}
    assert story.exit(1) == []
    assert started(story.exit(2)) == ["x"]


def test_beside_an_exclusive_one_nothing_starts_and_it_makes_way_when_idle():
    story = Story("a", preset("x", sharing=ALONE), models_max=0)
    story.busy(1, "x")

    assert story.ask(2, "a") == []
    assert story.release(1) == [AskExit(1, Reason.EVICTED, "a")]


def test_a_busy_one_drains_for_who_is_kept_apart_after_its_longest_wait():
    story = Story(preset("a", sharing=TURNS), preset("b", sharing=TURNS), max_wait_seconds=5.0)
    story.busy(1, "a")
    story.ask(2, "b")

    drained = story.wait(6.0)

    assert [type(d) for d in drained] == [Drain]
    assert drained[0].for_preset == "b"


def test_all_busy_ones_drain_together_for_an_exclusive_one():
    story = Story("a", "b", preset("x", sharing=ALONE), models_max=0, max_wait_seconds=5.0)
    story.busy(1, "a")
    story.busy(2, "b")
    story.ask(3, "x")

    drained = story.wait(6.0)

    assert {d.instance for d in drained if isinstance(d, Drain)} == {1, 2}
    assert story.release(1) == [AskExit(1, Reason.EVICTED, "x")]
    assert story.exit(1) == []
    assert story.release(2) == [AskExit(2, Reason.EVICTED, "x")]
    assert started(story.exit(2)) == ["x"]


def test_no_small_one_slips_in_beside_a_waiting_exclusive_one():
    story = Story(
        preset("a", need=(("gpu", 4),)),
        preset("b", need=(("gpu", 1),)),
        preset("x", sharing=ALONE, need=(("gpu", 4),)),
        models_max=0,
    )
    story.devices(gpu=20)
    story.busy(1, "a")
    story.ask(2, "x")

    assert story.ask(3, "b") == []


def test_a_pinned_one_that_is_kept_apart_refuses_at_once_and_is_named():
    story = Story(preset("a", sharing=TURNS, pinned=True), preset("b", sharing=TURNS))
    story.idle(1, "a")

    (refused,) = story.ask(2, "b")

    assert isinstance(refused, Reject)
    assert refused.refusal.code is Code.BLOCKED_BY_PINNED
    assert refused.refusal.blocked_by == ("a",)
    assert refused.refusal.apart


def test_what_would_fit_names_the_pinned_one_that_is_kept_apart():
    """It does not wait for it: a request is refused."""
    story = Story(preset("a", sharing=TURNS, pinned=True, need=(("gpu", 4),)))
    story.devices(gpu=20)
    story.idle(1, "a")

    now, empty = story.planner.fit(preset("new", sharing=TURNS, need=(("gpu", 4),)), story.now)

    assert (now.no_place.code, now.no_place.blocked_by) == (Code.BLOCKED_BY_PINNED, ("a",))
    assert now.no_place.apart
    assert not now.waits
    assert empty.grant


def test_what_would_fit_names_the_pinned_ones_that_leave_no_slot():
    story = Story(
        preset("a", pinned=True, need=(("gpu", 4),)), preset("b", need=(("gpu", 4),)), models_max=1
    )
    story.devices(gpu=20)
    story.idle(1, "a")

    now, _ = story.planner.fit(preset("b", need=(("gpu", 4),)), story.now)
    own, _ = story.planner.fit(preset("a", pinned=True, need=(("gpu", 6),)), story.now)

    assert (now.no_place.code, now.no_place.blocked_by) == (Code.BLOCKED_BY_PINNED, ("a",))
    assert not now.no_place.apart
    assert own.no_place is None  # it takes its own slot


def test_a_start_up_load_that_a_group_keeps_apart_is_skipped():
    story = Story(preset("a", sharing=TURNS), preset("b", sharing=TURNS))
    story.idle(1, "a")

    assert codes(story.ask(2, "b", Kind.STARTUP)) == {2: Code.DOES_NOT_FIT}


def test_what_sleeps_is_in_nobodys_way_and_wakes_only_when_the_other_has_gone():
    story = Story(preset("a", sharing=TURNS), preset("b", sharing=TURNS))
    story.sleeping(1, "a")

    assert started(story.ask(2, "b")) == ["b"]
    story.ready("b")
    assert story.ask(3, "a") == []
    assert story.release(2) == [AskExit(2, Reason.EVICTED, "a")]
    assert story.exit(2) == [Wake(1)]


def test_replicas_of_one_preset_are_not_kept_apart():
    story = Story(preset("a", sharing=TURNS, replicas=2), models_max=2)
    story.busy(1, "a")

    assert started(story.ask(2, "a")) == ["a"]


def test_memory_that_is_short_beside_the_rivals_is_made_in_the_same_step():
    story = Story(
        preset("a", sharing=TURNS, need=(("gpu", 4),)),
        preset("b", sharing=TURNS, need=(("gpu", 9),)),
        preset("c", need=(("gpu", 4),)),
        models_max=0,
    )
    story.devices(gpu=10)
    story.idle(1, "a")
    story.idle(2, "c")

    asked = story.ask(3, "b")

    assert {d.instance for d in asked if isinstance(d, AskExit)} == {1, 2}


def test_an_edit_of_groups_ends_nothing_and_counts_from_the_next_load_on():
    story = Story("a", "b", "c")
    story.idle(1, "a")
    story.idle(2, "b")

    assert story.edit(preset("a", sharing=TURNS), preset("b", sharing=TURNS), "c") == []
    assert [type(d) for d in story.ask(3, "c")] == [Start]
