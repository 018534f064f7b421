"""How long would a request wait that came now, and for what? Asked before anybody sends it."""

from __future__ import annotations

import pytest

from scheduler.core.upcoming import Upcoming
from scheduler.core.values import Code, Exit

from .story import Story, preset


def sized(name: str, gpu: int, **options):
    return preset(name, need=(("gpu", gpu),), load_seconds=20.0, **options)


def story(*presets, gpu: int = 10, **config) -> Story:
    told = Story(*presets, models_max=0, **config)
    told.devices(gpu=gpu)
    return told


def coming(told: Story, name: str) -> Upcoming:
    return told.planner.next_for(name, told.now)


def test_one_for_a_loaded_model_with_a_free_slot_waits_for_nothing():
    told = story(sized("a", 6))
    told.idle(1, "a")

    assert coming(told, "a") == Upcoming(0.0)


def test_one_for_a_model_that_fits_waits_for_its_load():
    assert coming(story(sized("a", 6)), "a") == Upcoming(20.0, "load")


def test_one_for_a_model_that_loads_waits_for_the_rest_of_it():
    told = story(sized("a", 6))
    told.ask(1, "a")
    told.cancel(1)
    told.wait(4)

    assert coming(told, "a") == Upcoming(15.0, "load")


def test_who_would_be_evicted_for_it_is_named():
    told = story(sized("a", 6), sized("b", 6))
    told.idle(1, "a")

    assert coming(told, "b") == Upcoming(20.0, "room", ("a",))


def test_one_that_needs_the_bytes_of_a_model_that_answers_waits_for_that_too():
    told = story(sized("a", 6), sized("b", 6), quantum_seconds=30.0)
    told.busy(1, "a")
    told.wait(100)

    came = coming(told, "b")

    assert came.holdup == "busy"
    assert came.seconds == pytest.approx(120, abs=15)


def test_one_more_for_a_full_model_waits_for_a_slot():
    told = story(sized("a", 6))
    told.busy(1, "a")

    assert coming(told, "a").holdup == "slot"


def test_one_behind_others_waits_for_them_as_well():
    told = story(sized("a", 6), sized("b", 6), sized("c", 6))
    told.busy(1, "a")
    told.ask(2, "b")

    came, behind = coming(told, "c"), coming(told, "b")

    assert came.holdup == "turn"
    assert behind.holdup == "busy"
    assert came.seconds is not None
    assert behind.seconds is not None
    assert came.seconds > behind.seconds


def test_one_that_would_be_refused_has_no_estimate():
    told = story(sized("a", 60), sized("b", 6))
    told.ask(1, "b")
    told.exit(told.of("b").id, Exit(code=1))

    codes = {name: coming(told, name).refusal.code for name in ("a", "b", "gone")}
    assert codes == {
        "a": Code.MODEL_TOO_LARGE,
        "b": Code.MODEL_BACKING_OFF,
        "gone": Code.MODEL_NOT_FOUND,
    }
    assert coming(told, "b").refusal.retry_after_seconds > 0
    assert all(coming(told, name).seconds is None for name in codes)


def test_once_its_back_off_is_over_a_failed_model_would_be_tried_again():
    told = story(sized("b", 6))
    told.ask(1, "b")
    told.exit(told.of("b").id, Exit(code=1))
    told.wait(100)

    assert coming(told, "b") == Upcoming(20.0, "load", failed=True)


def test_one_for_a_broken_model_is_refused_where_another_would_have_to_go():
    told = story(sized("a", 6), sized("b", 6))
    told.ask(1, "b")
    told.exit(told.of("b").id, Exit(code=1))
    told.busy(2, "a")
    told.wait(100)

    assert coming(told, "b").refusal.code is Code.MODEL_BROKEN


def test_one_that_finds_the_queue_full_is_refused():
    told = story(sized("a", 6), queue_limit=1)
    told.busy(1, "a")
    told.ask(2, "a")

    assert coming(told, "a").refusal.code is Code.QUEUE_FULL


def test_asking_changes_nothing():
    def decisions(*, reads: bool) -> list[object]:
        told = story(sized("a", 6), sized("b", 6), sized("c", 3))
        found: list[object] = []
        for request, name in enumerate("abcabc"):
            found.append(told.ask(request, name, after=7))
            for each in "abc" if reads else "":
                coming(told, each)
        return [*found, told.ready("a"), told.through(100)]

    assert decisions(reads=True) == decisions(reads=False)
