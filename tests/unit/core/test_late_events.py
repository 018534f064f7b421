"""Events that come late, twice, or about what nobody knows are harmless."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import Grant
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    Exited,
    LoadingReported,
    ReadyReported,
    Released,
    Requested,
    SleepingReported,
    SlotsSeen,
    Ticked,
    UnloadAsked,
)

from .story import Story, granted, preset, started

STRAYS = [
    Cancelled(99),
    Released(99),
    Abandoned(99),
    Exited(99),
    LoadingReported(99),
    ReadyReported(99),
    SleepingReported(99),
    SlotsSeen(99, 0),
    UnloadAsked("unknown"),
    Ticked(),
]


@pytest.mark.parametrize("event", STRAYS, ids=lambda event: type(event).__name__)
def test_an_event_about_nobody_changes_nothing(event):
    story = Story("a", "b")
    story.busy(1, "a")
    story.ask(2, "a")

    assert story.tell(event) == []
    assert story.leases("a") == {1}
    assert story.queue == ["a"]


def test_a_lease_released_twice_frees_one_slot():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")
    story.busy(2, "a")
    story.release(1)
    story.ask(3, "a")

    story.release(1)

    assert story.leases("a") == {2, 3}


def test_a_release_after_the_instance_has_gone_does_nothing():
    story = Story("a")
    story.busy(1, "a")
    story.exit(1)

    assert story.release(1) == []


def test_a_request_told_twice_is_one_waiter():
    story = Story("a")
    story.ask(1, "a")
    story.tell(Requested(1, "a", story.now))

    assert story.ready("a") == [Grant(1, 1)]


def test_a_request_told_again_under_its_lease_takes_no_second_slot():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")

    assert story.tell(Requested(1, "a", story.now)) == []
    assert story.leases("a") == {1}


@pytest.mark.parametrize("report", [LoadingReported, ReadyReported, SleepingReported])
def test_a_report_of_a_stopping_child_grants_nobody(report):
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")

    assert story.tell(report(1)) == []
    assert started(story.exit(1)) == ["b"]


def test_a_second_ready_is_no_use():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")

    story.ready("a")

    assert story.ask(3, "c")[0].instance == 1


def test_an_exit_told_twice_buries_once():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")
    assert started(story.exit(1)) == ["b"]

    assert story.exit(1) == []


def test_a_reading_ends_the_abandoned_leases_whose_slots_are_idle():
    story = Story(preset("a", parallel=3))
    for request in (1, 2, 3):
        story.busy(request, "a")
    story.abandon(1)
    story.abandon(3)
    story.ask(4, "a")

    assert story.tell(SlotsSeen(1, busy=3)) == []
    assert granted(story.tell(SlotsSeen(1, busy=2))) == [4]
    assert story.leases("a") == {2, 3, 4}


def test_a_reading_ends_no_lease_that_is_read():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")
    story.busy(2, "a")
    story.abandon(1)

    story.tell(SlotsSeen(1, busy=0))

    assert story.leases("a") == {2}


def test_a_tick_finds_nothing_to_do_when_nothing_was_lost():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")

    assert [story.wait(1) for _ in range(5)] == [[]] * 5


def test_a_timer_is_not_set_anew_with_every_event():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")
    first = story.timer
    story.timer = None

    story.ask(3, "b")
    story.wait(1)

    assert first is not None
    assert story.timer is None
