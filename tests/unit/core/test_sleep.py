"""Sleepers: what a sleeping child keeps, and how it is woken (A2, L8)."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason, Revoke, Wake
from scheduler.core.events import LoadingReported

from .story import Story, granted, preset, started


def test_a_request_to_a_sleeper_waits_for_its_wake():
    story = Story("a")
    story.sleeping(1, "a")

    assert story.ask(2, "a") == [Wake(1)]
    assert story.tell(LoadingReported(1)) == []
    assert granted(story.ready("a")) == [2]


def test_a_sleeper_is_woken_once_however_many_wait():
    story = Story(preset("a", parallel=2))
    story.sleeping(1, "a")
    story.ask(2, "a")

    assert story.ask(3, "a") == []
    assert granted(story.ready("a")) == [2, 3]


def test_a_wake_uses_a_loader():
    story = Story("a", "b")
    story.sleeping(1, "a")
    story.ask(2, "b")

    assert story.ask(3, "a") == []
    assert story.ready("b")[1:] == [Wake(1)]


def test_a_wake_waits_its_turn_behind_an_older_start():
    story = Story("a", "b", "c")
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.ask(3, "c")
    story.ask(4, "a")

    assert started(story.ready("b")) == ["c"]
    assert story.ready("c")[1:] == [Wake(1)]


def test_a_sleeper_keeps_its_slot():
    story = Story("a", "b", models_max=1)
    story.sleeping(1, "a")

    assert story.ask(2, "b") == [AskExit(1, Reason.EVICTED, "b")]
    assert started(story.exit(1)) == ["b"]


def test_falling_asleep_under_a_lease_releases_nothing():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.asleep("a")

    assert story.leases("a") == {1}
    assert story.ask(2, "b") == []


def test_nobody_is_granted_a_sleeper():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")
    story.asleep("a")

    assert story.ask(2, "a") == [Wake(1)]


def test_a_child_that_wakes_by_itself_under_a_lease_goes_on():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")
    story.asleep("a")
    story.tell(LoadingReported(1))
    assert story.of("a").state == "loading"

    assert story.ask(2, "a") == []
    assert granted(story.ready("a")) == [2]
    assert story.leases("a") == {1, 2}


def test_a_child_that_woke_without_a_word_is_loaded_when_it_is_ready():
    story = Story("a")
    story.sleeping(1, "a")

    story.ready("a")

    assert granted(story.ask(2, "a")) == [2]


def test_a_wake_that_is_never_reported_heals_with_the_exit():
    story = Story("a")
    story.sleeping(1, "a")
    story.ask(2, "a")

    assert started(story.exit(1)) == ["a"]
    assert granted(story.ready("a")) == [2]


def test_a_sleeper_that_dies_is_started_when_it_is_wanted():
    story = Story("a")
    story.sleeping(1, "a")

    assert story.exit(1) == []
    assert started(story.ask(2, "a")) == ["a"]


def test_a_sleeper_that_dies_under_a_lease_revokes_it():
    story = Story("a")
    story.busy(1, "a")
    story.asleep("a")

    assert story.exit(1) == [Revoke(1, 1)]


def test_a_child_whose_ready_was_lost_is_woken_for_its_waiters():
    story = Story("a")
    story.ask(1, "a")

    assert story.asleep("a") == [Wake(1)]
    assert granted(story.ready("a")) == [1]


def test_waking_counts_as_use():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.idle(2, "b")
    story.idle(3, "a")

    assert story.ask(4, "c") == [AskExit(2, Reason.EVICTED, "c")]
