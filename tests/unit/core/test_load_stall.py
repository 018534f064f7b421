"""A load that does not get on is ended: it holds a loader that others wait for."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import Kill, Reason
from scheduler.core.events import LoadingReported, ReadyReported, UnloadAsked

from .story import Story, codes, granted, refused, started

STALLED = Kill(1, Reason.LOAD_STALLED)


def loading(story: Story, progress: float | None = None, *, after: float = 1.0):
    return story.tell(LoadingReported(1, progress), after=after)


def test_a_child_that_never_becomes_ready_lets_the_next_one_load():
    story = Story("a", "b", load_stall_seconds=30.0)
    story.ask(1, "a")
    story.ask(2, "b")

    assert STALLED not in story.wait(28.5)
    ended = story.wait(0.5)

    assert STALLED in ended
    assert started(ended) == ["b"]
    assert codes(ended) == {1: "model_load_failed"}
    assert refused(ended)[1].exit.words == "no progress for 30 s while loading"


def test_its_failure_counts_and_its_exit_is_no_second_one():
    story = Story("a", load_stall_seconds=30.0)
    story.ask(1, "a")
    story.wait(30)
    story.exit(1)

    assert story.planner.failures["a"].in_a_row == 1
    assert started(story.ask(2, "a", after=1)) == ["a"]


def test_it_backs_off():
    story = Story("a", load_stall_seconds=30.0)
    story.ask(1, "a")
    story.wait(30)

    assert codes(story.ask(2, "a", after=0.5)) == {2: "model_backing_off"}


def test_progress_puts_it_off():
    story = Story("a", load_stall_seconds=30.0)
    story.ask(1, "a")
    for step in range(5):
        assert loading(story, step / 10, after=25) == []

    assert granted(story.tell(ReadyReported(1), after=29)) == [1]


@pytest.mark.parametrize("said", [None, 0.5, 0.2])
def test_to_say_the_same_again_is_no_progress(said):
    story = Story("a", load_stall_seconds=30.0)
    story.ask(1, "a")
    loading(story, 0.5)
    loading(story, said, after=20)

    assert story.wait(10)[0] == STALLED


def test_the_timer_is_set_for_it():
    story = Story("a", load_stall_seconds=30.0)
    story.ask(1, "a")

    assert story.timer == story.now + 30


def test_a_wake_that_does_not_get_on_has_failed_as_well():
    story = Story("a", load_stall_seconds=30.0)
    story.sleeping(1, "a")
    story.ask(2, "a")
    ended = story.wait(30)

    assert ended[0] == STALLED
    assert codes(ended) == {2: "model_load_failed"}


def test_one_that_stalls_while_it_drains_has_not_failed():
    """It woke by itself under a lease."""
    story = Story("a", load_stall_seconds=30.0)
    story.busy(1, "a")
    story.asleep("a")
    loading(story)
    story.tell(UnloadAsked("a"))

    assert story.wait(30) == [STALLED]
    story.exit(1)
    assert story.planner.failures == {}
    assert started(story.ask(2, "a")) == ["a"]


def test_progress_of_the_load_before_counts_for_no_wake():
    story = Story("a", load_stall_seconds=30.0)
    story.ask(1, "a")
    loading(story, 1.0)
    story.ready("a")
    story.release(1)
    story.asleep("a")
    story.ask(2, "a")

    assert loading(story, 0.1, after=20) == []
    assert story.wait(20) == []


def test_one_that_is_loaded_may_be_silent_for_ever():
    story = Story("a", load_stall_seconds=30.0)
    story.idle(1, "a")

    assert story.wait(1000) == []
