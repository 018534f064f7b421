"""Who waits can be told why, for what, and how long still."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler.core.values import Kind, Priority

from .story import Story, preset, started


def entry(story: Story, name: str):
    return next(e for e in story.planner.entries(story.now) if e.preset == name)


def names(ahead) -> list[str]:
    return [e.preset for e in ahead]


def test_who_waits_for_its_model_to_load_is_told_so():
    story = Story("a")
    story.ask(1, "a")
    story.wait(4)

    why = story.why(1)

    assert (why.holdup, why.turn, why.position) == ("load", 0, 1)
    assert why.waited == 4
    assert why.ahead == why.victims == ()
    assert why.drain_in is None


def test_who_is_next_waits_for_the_loader_and_the_others_for_their_turn():
    story = Story("a", "b", "c", "d")
    for request, name in enumerate("abcd", start=1):
        story.ask(request, name)

    whys = {request: story.why(request) for request in (2, 3, 4)}

    assert [why.holdup for why in whys.values()] == ["loader", "turn", "turn"]
    assert [why.turn for why in whys.values()] == [1, 2, 3]
    assert names(whys[4].ahead)[-2:] == ["b", "c"]
    assert [e.holdup for e in story.planner.entries(story.now)] == [
        "load",
        "loader",
        "turn",
        "turn",
    ]


def test_who_waits_for_a_slot_is_told_its_place_among_the_waiters():
    story = Story("a")
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "a")

    first, second = story.why(2), story.why(3)

    assert (first.holdup, first.turn, first.position) == ("slot", 0, 1)
    assert (second.holdup, second.turn, second.position) == ("slot", 0, 2)


def test_the_place_among_the_waiters_counts_classes():
    story = Story("a")
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "a", priority=Priority.HIGH)

    assert story.why(3).position == 1
    assert story.why(2).position == 2


def test_who_waits_for_room_is_told_who_goes():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")

    why = story.why(2)

    assert (why.holdup, why.turn, why.victims) == ("room", 1, (1,))
    assert (entry(story, "b").holdup, entry(story, "b").victims) == ("room", (1,))


def test_who_waits_for_busy_models_is_told_when_one_makes_way():
    story = Story("a", "b", models_max=1, quantum_seconds=30)
    story.busy(1, "a")
    story.ask(2, "b")
    story.until(10)

    why = story.why(2)

    assert (why.holdup, why.turn, why.drain_in) == ("busy", 1, 24)
    assert entry(story, "b").drain_in == 24


def test_a_drain_under_way_is_room_on_its_way():
    story = Story("a", "b", models_max=1, max_wait_seconds=0)
    story.busy(1, "a")
    story.ask(2, "b")

    why = story.why(2)

    assert (why.holdup, why.victims) == ("room", (1,))


def test_each_answer_names_the_request():
    story = Story(preset("a", priority=Priority.HIGH), "b")
    story.ask(1, "b")
    story.ask(2, "a", Kind.WEBSOCKET, tenant="x", arrived=1.5)

    why = story.why(2)

    assert (why.request, why.preset, why.tenant, why.kind) == (2, "a", "x", "websocket")
    assert why.waited == story.now - 1.5


@pytest.mark.parametrize("number", [1, 2, 99])
def test_who_does_not_wait_is_not_explained(number):
    story = Story("a")
    story.busy(1, "a")
    story.ask(2, "a")
    story.cancel(2)

    assert story.why(number) is None


def test_no_more_than_twenty_before_it_are_listed():
    story = Story(*(f"m{n:02}" for n in range(40)))
    for request in range(40):
        story.ask(request, f"m{request:02}")

    why = story.why(39)

    assert why.turn == 39
    assert len(why.ahead) == 20


def test_an_entry_tells_how_many_wait_and_since_when():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b", arrived=0.5)
    story.ask(3, "b")

    waiting = entry(story, "b")

    assert (waiting.waiters, waiting.oldest) == (2, 0.5)


# Estimates ------------------------------------------------------------------------------


def test_the_estimate_of_a_load_is_what_is_left_of_its_learned_time():
    story = Story(preset("a", load_seconds=20.0))
    story.ask(1, "a")
    story.wait(5)

    assert story.why(1).seconds == pytest.approx(15, abs=1)
    assert entry(story, "a").seconds == pytest.approx(15, abs=1)


def test_an_estimate_grows_with_what_is_to_be_loaded_before():
    presets = [preset(name, load_seconds=20.0) for name in "abcd"]
    story = Story(*presets)
    for request, name in enumerate("abcd", start=1):
        story.ask(request, name)

    estimates = [story.why(request).seconds for request in (1, 2, 3, 4)]

    assert all(b - a >= 15 for a, b in pairwise(estimates))


def test_an_estimate_counts_who_answers_where_bytes_are_short_and_places_are_not():
    presets = [preset(name, need=(("gpu", 6),), load_seconds=1.0) for name in "abc"]
    story = Story(*presets, models_max=0, quantum_seconds=200)
    story.devices(gpu=10)
    story.busy(1, "a")
    story.until(100)
    story.ask(2, "b")
    story.ask(3, "c")

    first, second = story.why(2), story.why(3)

    assert first.holdup == "busy"
    assert first.seconds == pytest.approx(100, abs=15)
    assert second.seconds > first.seconds


def test_an_estimate_is_never_negative_however_late_a_load_is():
    story = Story(preset("a", load_seconds=2.0), preset("b", load_seconds=2.0))
    story.ask(1, "a")
    story.ask(2, "b")
    story.wait(100)

    assert all(story.why(request).seconds >= 0 for request in (1, 2))


def test_reading_changes_nothing():
    def decisions(reads: bool):
        story = Story("a", "b", "c", models_max=1)
        told = []
        for request, name in enumerate("abcabcabc"):
            told.append(story.ask(request, name, after=7))
            if reads:
                story.planner.entries(story.now)
                story.planner.retry_after(name, story.now)
                for waiting in range(request + 1):
                    story.why(waiting)
        told.append(story.ready("a"))
        told.append(story.through(100))
        return told

    assert decisions(reads=True) == decisions(reads=False)
    assert started(decisions(reads=True)[0]) == ["a"]
