"""The model of Ollama's scheduler does what the notes on it say, faults and merits alike."""

from __future__ import annotations

import pytest

from scheduler.core.values import PresetName
from scheduler.simulating.rivals.ollama import Ollama, blob_of

from .rival_story import FAILED, RivalStory


@pytest.fixture
def one_place():
    return RivalStory(Ollama(1), "a", "b", "c")


def by_blob(*names: str) -> list[str]:
    return sorted(names, key=lambda name: blob_of(PresetName(name)))


def test_a_busy_victim_takes_new_requests_and_the_newcomer_starves(one_place):
    story = one_place
    held = story.load("a")
    waiting = story.ask("b")

    story.keep_busy("a", held)

    assert waiting not in story.granted
    assert story.stopped == []


def test_a_victim_goes_in_the_moment_in_which_it_is_idle(one_place):
    story = one_place
    held = story.load("a")
    story.ask("b")

    story.release(held)

    assert story.stopped == ["a"]


def test_a_victim_that_a_client_keeps_alive_stays_and_the_loop_hangs():
    story = RivalStory(Ollama(1, clients_send_keep_alive=True), "a", "b", "c")
    held = story.load("a")
    waiting = story.ask("b")
    story.release(story.keep_busy("a", held, times=1))

    behind = story.ask("c")
    story.pass_time(200.0)

    assert story.stopped == []
    assert {waiting, behind}.isdisjoint(story.granted)


def test_while_one_load_waits_for_room_no_other_is_looked_at():
    story = RivalStory(Ollama(2), "a", "b", "c", "d")
    first, second = by_blob("a", "b")
    held = {name: story.load(name) for name in (first, second)}
    story.ask("c")
    story.ask("d")

    story.keep_busy(first, held[first])

    assert story.starts == [first, second]


def test_while_one_model_loads_no_other_starts_although_there_is_room():
    story = RivalStory(Ollama(3), "a", "b", "c")

    story.ask("a")
    story.ask("b")

    assert story.starts == ["a"]


def test_a_load_ends_with_the_client_that_caused_it_and_the_next_begins_anew(one_place):
    story = one_place
    first, second = story.ask("a"), story.ask("a")

    story.leave(first)
    story.exited("a")
    story.ready("a")

    assert story.starts == ["a", "a"]
    assert second in story.granted


def test_each_waiter_of_a_broken_model_causes_a_load_of_its_own(one_place):
    story = one_place
    requests = [story.ask("a") for _ in range(3)]

    for _ in requests:
        story.exited("a", FAILED)

    assert story.starts == ["a", "a", "a"]
    assert story.rejected == requests


def test_the_victim_is_chosen_by_its_blob_not_by_its_last_use():
    story = RivalStory(Ollama(2), "a", "b", "c")
    first, second = by_blob("a", "b")
    story.loaded_and_idle(first)
    story.loaded_and_idle(second)
    story.release(story.ask(first))

    story.ask("c")

    assert story.stopped == [first]


def test_the_queue_bounds_only_those_who_need_a_load():
    story = RivalStory(Ollama(1, max_queue=2), "a", "b")
    held = story.load("a")
    at_work, *queued, refused = [story.ask("b") for _ in range(4)]

    loaded = [story.ask("a") for _ in range(20)]

    assert story.rejected == [refused]
    assert set(loaded) <= set(story.granted)
    assert {held, at_work, *queued}.isdisjoint(story.rejected)


def test_an_idle_model_ends_after_its_keep_alive(one_place):
    story = one_place
    story.loaded_and_idle("a")

    story.pass_time(290.0)
    before = list(story.stopped)
    story.pass_time(20.0)

    assert before == []
    assert story.stopped == ["a"]


def test_a_client_that_leaves_the_queue_is_passed_over_when_its_turn_comes(one_place):
    story = one_place
    held = story.load("a")
    story.ask("b")
    story.leave(story.ask("c"))
    last = story.ask("b")

    story.release(held)
    story.exited("a")
    story.ready("b")

    assert story.starts == ["a", "b"]
    assert last in story.granted
