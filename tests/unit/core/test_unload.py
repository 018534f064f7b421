"""A person unloads a model, and how an instance is stopped."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Kill, Reason, Revoke, Undrain
from scheduler.core.events import LoadingReported, UnloadAsked

from .story import Story, codes, granted, preset, started


def test_an_idle_instance_is_asked_to_exit():
    story = Story("a")
    story.idle(1, "a")

    assert story.tell(UnloadAsked("a")) == [AskExit(1, Reason.UNLOADED)]


def test_a_busy_instance_goes_after_its_answers():
    story = Story("a")
    story.busy(1, "a")

    assert story.tell(UnloadAsked("a")) == [Drain(1, Reason.UNLOADED)]
    assert story.release(1) == [AskExit(1, Reason.UNLOADED)]


def test_force_cuts_answers():
    """Asked to exit, the child would end them first."""
    story = Story("a")
    story.busy(1, "a")

    assert story.tell(UnloadAsked("a", force=True)) == [Kill(1, Reason.UNLOADED)]
    assert story.exit(1) == [Revoke(1, 1)]


def test_force_ends_a_drain_under_way():
    story = Story("a")
    story.busy(1, "a")
    story.tell(UnloadAsked("a"))

    assert story.tell(UnloadAsked("a", force=True)) == [Kill(1, Reason.UNLOADED)]


def test_force_asks_where_there_is_no_answer_to_cut():
    story = Story("a")
    story.idle(1, "a")

    assert story.tell(UnloadAsked("a", force=True)) == [AskExit(1, Reason.UNLOADED)]


def test_a_pinned_instance_goes_when_a_person_says_so():
    story = Story(preset("a", pinned=True))
    story.idle(1, "a")

    assert story.tell(UnloadAsked("a")) == [AskExit(1, Reason.UNLOADED)]


def test_a_load_under_way_is_cancelled_and_its_waiters_are_told():
    story = Story("a")
    story.ask(1, "a")
    story.ask(2, "a")

    answer = story.tell(UnloadAsked("a"))

    assert codes(answer) == {1: "unloaded", 2: "unloaded"}
    assert answer[2:] == [Kill(1, Reason.UNLOADED)]


def test_waiters_of_a_saturated_instance_wait_for_a_new_one():
    story = Story("a", models_max=1)
    story.busy(1, "a")
    story.ask(2, "a")

    assert story.tell(UnloadAsked("a")) == [Drain(1, Reason.UNLOADED)]
    story.release(1)
    assert started(story.exit(1)) == ["a"]
    assert granted(story.ready("a")) == [2]


def test_who_comes_after_the_drain_began_waits_for_a_new_instance():
    story = Story("a", models_max=2)
    story.busy(1, "a")
    story.tell(UnloadAsked("a"))

    assert started(story.ask(2, "a")) == ["a"]
    assert granted(story.ready("a")) == [2]


def test_waiters_for_a_sleepers_wake_get_a_new_start():
    story = Story("a", "b", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")

    assert codes(story.tell(UnloadAsked("a"))) == {}
    story.ready("b")
    assert started(story.exit(1)) == ["a"]


def test_an_edit_does_not_undo_a_persons_unload():
    story = Story("a")
    story.busy(1, "a")
    story.tell(UnloadAsked("a"))
    story.edit(preset("a", "other"))

    assert story.edit("a") == []
    assert story.of("a").state == "draining"


def test_a_drain_that_an_edit_began_becomes_final_by_an_unload():
    story = Story("a")
    story.busy(1, "a")
    story.edit(preset("a", "other"))

    assert story.tell(UnloadAsked("a")) == [Drain(1, Reason.UNLOADED)]
    assert not any(isinstance(d, Undrain) for d in story.edit("a"))


def test_unloading_what_is_not_loaded_does_nothing():
    story = Story("a")

    assert story.tell(UnloadAsked("a")) == []
    assert story.tell(UnloadAsked("unknown")) == []


def test_unloading_twice_asks_once():
    story = Story("a")
    story.busy(1, "a")
    story.tell(UnloadAsked("a"))

    assert story.tell(UnloadAsked("a")) == []
    assert len(story.release(1)) == 1
    assert story.tell(UnloadAsked("a", force=True)) == []


def test_who_does_not_exit_in_time_is_killed():
    story = Story(preset("a", stop_timeout_seconds=10))
    story.idle(1, "a")
    story.tell(UnloadAsked("a"))
    assert story.timer == story.now + 10

    assert story.wait(9.5) == []
    assert story.wait(0.5) == [Kill(1, Reason.STOP_TIMEOUT)]
    assert story.wait(100) == []


def test_a_stop_timeout_of_0_kills_at_once():
    story = Story(preset("a", stop_timeout_seconds=0))
    story.idle(1, "a")

    assert story.tell(UnloadAsked("a")) == [Kill(1, Reason.UNLOADED)]


def test_a_child_that_is_still_reading_its_weights_is_killed_at_once():
    story = Story("a")
    story.busy(1, "a")
    story.asleep("a")
    story.tell(LoadingReported(1))
    assert story.tell(UnloadAsked("a")) == [Drain(1, Reason.UNLOADED)]

    assert story.release(1) == [Kill(1, Reason.UNLOADED)]


def test_an_evicted_one_that_does_not_exit_is_killed_for_the_same_preset():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")

    assert story.wait(10) == [Kill(1, Reason.STOP_TIMEOUT, "b")]
    assert started(story.exit(1)) == ["b"]
