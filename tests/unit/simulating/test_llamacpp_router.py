"""The model of llama.cpp's router does what the notes on it say, faults and merits alike."""

from __future__ import annotations

import pytest

from scheduler.simulating.rivals.llamacpp_router import LlamaCppRouter

from .rival_story import FAILED, RivalStory


@pytest.fixture
def one_place():
    return RivalStory(LlamaCppRouter(1), "a", "b", "c")


@pytest.fixture
def two_places():
    return RivalStory(LlamaCppRouter(2), "a", "b", "c")


def test_two_clients_that_keep_a_model_busy_starve_every_other(one_place):
    story = one_place
    held = story.load("a")
    waiting = story.ask("b")

    story.keep_busy("a", held)

    assert waiting not in story.granted
    assert story.stopped == []


def test_an_idle_model_makes_way_when_its_last_answer_ends(one_place):
    story = one_place
    held = story.load("a")
    waiting = story.ask("b")

    story.release(held)
    story.exited("a")
    story.ready("b")

    assert waiting in story.granted


def test_a_request_for_a_loaded_model_never_waits_for_a_slot(one_place):
    story = one_place
    story.load("a")

    requests = [story.ask("a") for _ in range(20)]

    assert set(requests) <= set(story.granted)


def test_the_least_recently_used_idle_model_goes(two_places):
    story = two_places
    story.loaded_and_idle("a")
    story.loaded_and_idle("b")
    story.release(story.ask("a"))

    story.ask("c")

    assert story.stopped == ["b"]


def test_only_the_head_of_the_queue_loads(two_places):
    story = two_places

    story.ask("a")
    story.ask("b")

    assert story.starts == ["a"]


def test_models_are_served_in_the_order_of_their_first_waiters(one_place):
    story = one_place
    held = story.load("a")
    for name in ("b", "c", "b"):
        story.ask(name)

    story.release(held)
    story.exited("a")

    assert story.starts == ["a", "b"]


def test_one_load_serves_all_who_wait_for_it(one_place):
    story = one_place
    requests = [story.ask("a") for _ in range(3)]

    story.ready("a")

    assert story.granted == requests
    assert story.starts == ["a"]


def test_a_broken_model_evicts_a_good_one_at_every_attempt(one_place):
    story = one_place
    for _ in range(3):
        story.loaded_and_idle("a")
        failing = story.ask("b")
        story.exited("a")
        story.exited("b", FAILED)
        assert failing in story.rejected

    assert story.stopped == ["a", "a", "a"]


def test_a_load_runs_on_when_its_waiters_have_gone(one_place):
    story = one_place
    story.leave(story.ask("a"))

    story.ask("b")

    assert story.stopped == []
    assert story.starts == ["a"]


def test_a_waiter_that_leaves_frees_its_place_in_the_queue(one_place):
    story = one_place
    held = story.load("a")
    story.leave(story.ask("b"))
    story.ask("c")

    story.release(held)
    story.exited("a")

    assert story.starts == ["a", "c"]
