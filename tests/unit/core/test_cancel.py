"""A9 and A3: waiters that leave, and what becomes of what was done for them."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Kill, Reason
from scheduler.core.events import Abandoned, Cancelled

from .story import Story, granted, preset, started


def test_a_waiter_that_leaves_is_not_granted():
    story = Story("a")
    story.ask(1, "a")
    story.ask(2, "a")

    story.tell(Cancelled(1))

    assert granted(story.ready("a")) == [2]


def test_a_waiter_whose_client_has_gone_leaves_like_one_that_cancels():
    story = Story("a")
    story.ask(1, "a")

    story.tell(Abandoned(1))

    assert story.queue == []
    assert granted(story.ready("a")) == []


def test_an_entry_goes_with_its_last_waiter():
    story = Story("a", "b")
    story.ask(1, "a")
    story.ask(2, "b")

    story.tell(Cancelled(2))

    assert story.queue == ["a"]
    assert started(story.ready("a")) == []


def test_a_cancel_that_crosses_its_grant_ends_the_lease():
    story = Story("a")
    story.busy(1, "a")

    story.tell(Cancelled(1))

    assert story.of("a").idle
    assert granted(story.ask(2, "a")) == [2]


def test_a_load_whose_waiters_left_is_finished_when_nobody_needs_its_place():
    story = Story("a")
    story.ask(1, "a")

    assert story.tell(Cancelled(1)) == []
    story.ready("a")
    assert story.of("a").state == "loaded"
    assert granted(story.ask(2, "a")) == [2]


def test_a_load_whose_waiters_left_is_killed_when_the_head_needs_its_slot():
    """B loads, all its waiters leave, D needs B's room: B is killed and D goes on."""
    story = Story("b", "d", models_max=1)
    story.ask(1, "b")
    story.ask(2, "d")

    assert story.tell(Cancelled(1)) == [Kill(1, Reason.UNWANTED, "d")]
    assert started(story.exit(1)) == ["d"]


def test_a_load_whose_waiters_left_is_killed_when_the_head_needs_its_loader():
    story = Story("b", "d", models_max=2)
    story.ask(1, "b")
    story.ask(2, "d")

    answer = story.tell(Cancelled(1))

    assert answer[0] == Kill(1, Reason.UNWANTED, "d")
    assert started(answer) == ["d"]


def test_an_unwanted_load_is_not_killed_for_a_loader_that_is_free():
    story = Story("b", "d", models_max=2, models_max_loading=2)
    story.ask(1, "b")
    story.tell(Cancelled(1))

    assert started(story.ask(2, "d")) == ["d"]
    assert story.of("b").state == "loading"


def test_a_pinned_load_is_finished_whoever_waits():
    story = Story(preset("b", pinned=True), "d", models_max=2)
    story.ask(1, "b")
    story.ask(2, "d")

    assert story.tell(Cancelled(1)) == []
    assert started(story.ready("b")) == ["d"]


def test_a_load_is_wanted_again_when_somebody_comes_in_time():
    story = Story("b", "d", models_max=1)
    story.ask(1, "b")
    story.tell(Cancelled(1))
    story.ask(2, "b")

    assert story.ask(3, "d") == []
    assert granted(story.ready("b")) == [2]


def test_a_person_who_waits_for_a_load_keeps_it_wanted():
    story = Story("b", "d", models_max=1)
    story.ask(1, "b")
    story.ask(2, "b", "load")
    story.ask(3, "d")

    assert story.tell(Cancelled(1)) == []


def test_the_slot_of_a_victim_goes_to_the_new_head_when_its_entry_has_gone():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]
    story.tell(Cancelled(3))

    # Nobody needs it now; whoever comes next finds the room already on its way.
    assert story.ask(4, "a") == []
    assert started(story.exit(1)) == ["a"]
