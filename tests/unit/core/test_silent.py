"""A child that does not answer is killed, and nobody loses a place by it."""

from __future__ import annotations

from scheduler.core.decisions import Kill, Reason, Revoke, Undrain
from scheduler.core.events import Silent
from scheduler.core.values import Exit

from .story import Story, granted, preset, started

HUNG = Kill(1, Reason.HUNG)
KILLED = Exit(signal=9)


def test_a_child_that_hangs_is_killed_at_once_and_its_answers_end_with_it():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")
    story.busy(2, "a")

    assert story.silent("a") == [HUNG]
    assert story.leases("a") == {1, 2}
    assert story.exit(1, KILLED) == [Revoke(1, 1), Revoke(2, 1)]


def test_who_waits_for_a_child_that_hangs_gets_another():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")
    story.silent("a")

    assert story.queue == ["a", "b"]
    assert started(story.exit(1, KILLED)) == ["a"]
    assert granted(story.ready("a")) == [2]


def test_a_child_that_hangs_is_granted_to_nobody():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")
    story.silent("a")

    assert granted(story.ask(2, "a")) == []


def test_to_hang_is_no_failed_load():
    story = Story("a")
    story.busy(1, "a")
    story.silent("a")
    story.exit(1, KILLED)

    assert started(story.ask(2, "a")) == ["a"]


def test_a_child_that_hung_is_started_again_only_on_demand():
    story = Story("a")
    story.idle(1, "a")
    assert story.silent("a") == [HUNG]

    assert story.exit(1, KILLED) == []
    assert story.wait(100) == []


def test_a_pinned_child_that_hangs_is_killed_as_well():
    story = Story(preset("a", pinned=True))
    story.idle(1, "a")

    assert story.silent("a") == [HUNG]


def test_a_child_that_hangs_is_killed_once():
    story = Story("a")
    story.busy(1, "a")
    story.silent("a")

    assert story.silent("a") == []
    assert story.wait(100) == []


def test_a_child_that_hangs_while_it_drains_makes_room_by_its_exit():
    story = Story("a", "b", models_max=1, max_wait_seconds=0)
    story.busy(1, "a")
    story.ask(2, "b")
    assert story.of("a").state == "draining"

    assert [(d.instance, d.reason) for d in story.silent("a")] == [(1, Reason.HUNG)]
    assert started(story.exit(1, KILLED)) == ["b"]


def test_a_child_that_hangs_makes_room_for_whom_another_drained():
    story = Story("a", "b", "c", models_max=2, max_wait_seconds=0)
    story.busy(1, "a")
    story.busy(2, "b")
    [drain] = story.ask(3, "c")
    other = {1: 2, 2: 1}[drain.instance]

    assert Undrain(drain.instance, Reason.NO_LONGER_NEEDED) in story.tell(Silent(other))
    assert started(story.exit(other, KILLED)) == ["c"]


def test_a_child_that_was_asked_to_exit_is_killed_once_though_it_hangs():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")

    told = story.silent("a") + [decision for _, decision in story.through(60)]

    assert len([decision for decision in told if isinstance(decision, Kill)]) == 1


def test_a_wake_that_hangs_is_no_failed_load_either():
    story = Story("a", models_max=1)
    story.sleeping(1, "a")
    story.ask(2, "a")
    assert story.silent("a") == [HUNG]

    assert started(story.exit(1, KILLED)) == ["a"]
    assert granted(story.ready("a")) == [2]
