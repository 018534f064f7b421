"""Nothing begins any more; what is under way may end."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Kill, Reason
from scheduler.core.events import ShutdownAsked, UnloadAsked

from .story import Story, codes, granted, preset


def test_who_waits_is_told():
    story = Story("a", "b")
    story.ask(1, "a")
    story.ask(2, "b")

    assert codes(story.tell(ShutdownAsked())) == {1: "shutting_down", 2: "shutting_down"}
    assert story.queue == []


def test_who_comes_is_told_also_when_the_model_is_loaded():
    story = Story("a")
    story.idle(1, "a")
    story.tell(ShutdownAsked())

    assert codes(story.ask(2, "a")) == {2: "shutting_down"}


def test_idle_instances_are_left_to_the_shell():
    story = Story("a", "b")
    story.idle(1, "a")
    story.sleeping(2, "b")

    assert story.tell(ShutdownAsked()) == []
    assert story.wait(1000) == []
    assert len(story.alive) == 2


def test_leases_run_on_until_they_are_released():
    story = Story("a")
    story.busy(1, "a")
    story.tell(ShutdownAsked())
    assert story.leases("a") == {1}

    assert story.release(1) == []
    assert story.of("a").idle


def test_a_load_that_ends_grants_nobody():
    story = Story("a")
    story.ask(1, "a")
    story.tell(ShutdownAsked())

    assert granted(story.ready("a")) == []


def test_an_exit_starts_nothing():
    story = Story("a", models_max=1)
    story.busy(1, "a")
    story.ask(2, "a")
    story.tell(ShutdownAsked())

    assert [type(d).__name__ for d in story.exit(1)] == ["Revoke"]


def test_a_stop_under_way_is_seen_through():
    story = Story(preset("a", stop_timeout_seconds=10), "b")
    story.idle(1, "a")
    story.busy(2, "b")
    story.tell(UnloadAsked("a"))
    story.tell(UnloadAsked("b"))
    story.tell(ShutdownAsked())

    assert story.wait(10) == [Kill(1, Reason.STOP_TIMEOUT)]
    assert story.release(2) == [AskExit(2, Reason.UNLOADED)]
