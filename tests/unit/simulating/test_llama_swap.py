"""The model of llama-swap's group router does what the notes on it say, faults and merits alike."""

from __future__ import annotations

import pytest

from scheduler.simulating.rivals.llama_swap import LlamaSwap

from .rival_story import FAILED, RivalStory


@pytest.fixture
def one_group():
    return RivalStory(LlamaSwap(1), "a", "b", "c")


def test_two_clients_that_keep_a_model_busy_starve_every_other(one_group):
    story = one_group
    held = story.load("a")
    waiting = story.ask("b")

    story.keep_busy("a", held)

    assert waiting not in story.granted
    assert story.stopped == []


def test_requests_in_turn_are_served_model_by_model(one_group):
    story = one_group
    a = [story.ask("a")]
    b = [story.ask("b")]
    a += [story.ask("a")]
    b += [story.ask("b")]

    story.ready("a")
    for request in a:
        story.release(request)
    story.exited("a")
    story.ready("b")

    assert story.starts == ["a", "b"]
    assert story.granted == a + b


def test_the_model_of_another_group_is_left_alone():
    story = RivalStory(LlamaSwap(2), "a", "b", "c")
    story.loaded_and_idle("a")
    story.loaded_and_idle("b")

    story.ask("c")

    assert story.stopped == ["a"]


def test_swaps_of_different_groups_run_side_by_side():
    story = RivalStory(LlamaSwap(2), "a", "b", "c")

    story.ask("a")
    story.ask("b")

    assert story.starts == ["a", "b"]


def test_who_waits_counts_for_the_limit_too():
    story = RivalStory(LlamaSwap(1, limit=10), "a", "b")

    requests = [story.ask("a") for _ in range(14)]

    assert story.rejected == requests[10:]


def test_a_failed_load_leaves_nothing_running_and_is_tried_again_at_once(one_group):
    story = one_group
    for _ in range(3):
        story.loaded_and_idle("a")
        waiting = [story.ask("b"), story.ask("b")]
        story.exited("a")
        story.exited("b", FAILED)
        assert story.rejected[-2:] == waiting
        assert story.running == {}

    assert story.stopped == ["a", "a", "a"]


def test_a_load_that_nobody_wants_any_more_delays_the_next_to_its_end(one_group):
    story = one_group
    story.leave(story.ask("a"))

    story.ask("b")
    before = list(story.stopped)
    story.ready("a")

    assert before == []
    assert story.stopped == ["a"]


def test_who_leaves_the_queue_starts_no_swap(one_group):
    story = one_group
    held = story.load("a")
    story.leave(story.ask("b"))

    story.release(held)

    assert story.stopped == []
