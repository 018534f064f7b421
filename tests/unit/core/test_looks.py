"""A8: a look (a GET) takes nothing away from anybody."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Grant, Reason, Revoke
from scheduler.core.events import Released, ShutdownAsked
from scheduler.core.values import Kind

from .story import Story, codes, granted, preset, started


def test_a_look_at_a_loaded_model_is_granted_at_once_however_busy_it_is():
    story = Story("a")
    story.busy(1, "a")
    story.ask(2, "a")

    assert story.look(3, "a") == [Grant(3, 1)]


def test_a_look_takes_no_slot():
    story = Story("a")
    story.idle(1, "a")
    for request in range(2, 20):
        assert granted(story.look(request, "a", after=0.01)) == [request]

    assert granted(story.ask(20, "a")) == [20]


def test_a_look_is_granted_though_the_queue_is_full():
    story = Story("a", "b", queue_limit=1)
    story.idle(1, "a")
    story.ask(2, "b")

    assert granted(story.look(3, "a")) == [3]


def test_a_look_is_no_use():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.look(3, "a")
    story.release(3)

    assert story.ask(4, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_a_look_does_not_make_a_load_wanted_that_nobody_wanted():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.cancel(2)
    story.ready("b")
    story.look(3, "b")

    assert story.ask(4, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_a_look_keeps_no_model_from_going():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.look(2, "a")

    assert story.ask(3, "b") == [AskExit(1, Reason.EVICTED, "b")]
    answer = story.exit(1)
    assert Revoke(2, 1) in answer
    assert started(answer) == ["b"]


def test_a_look_keeps_no_drain_from_its_end():
    story = Story("a", "b", models_max=1, max_wait_seconds=0)
    story.busy(1, "a")
    story.look(2, "a")
    story.ask(3, "b")

    assert story.release(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_looking_again_and_again_keeps_no_model_alive():
    story = Story("a", keep_alive_seconds=60)
    story.idle(1, "a")
    idle_since = story.now
    for request in range(2, 13):
        story.look(request, "a", after=5)
    story.until(idle_since + 59)

    assert AskExit(1, Reason.IDLE) in story.until(idle_since + 60)


def test_a_look_does_not_count_as_first_use():
    story = Story("a", keep_alive_seconds=0)
    story.ask(1, "a", Kind.LOAD)
    story.ready("a")
    story.look(2, "a")

    assert story.release(2) == []
    assert story.wait(1000) == []


def test_a_look_ends_after_ten_seconds():
    story = Story("a")
    story.idle(1, "a")
    story.look(2, "a")
    assert story.timer == story.now + 10

    assert story.through(story.now + 60) == [(story.timer, Revoke(2, 1))]
    assert story.release(2) == []


@pytest.mark.parametrize("seconds", [1.0, 30.0])
def test_how_long_a_look_lasts_is_configured(seconds):
    story = Story("a", look_seconds=seconds)
    story.idle(1, "a")
    story.look(2, "a")
    end = story.now + seconds

    assert story.through(end + 5) == [(end, Revoke(2, 1))]


@pytest.mark.parametrize("how", ["release", "cancel"])
def test_a_look_that_has_ended_is_not_revoked(how):
    story = Story("a")
    story.idle(1, "a")
    story.look(2, "a")
    getattr(story, how)(2)

    assert story.through(story.now + 60) == []


def test_a_look_ends_with_its_instance():
    story = Story("a")
    story.idle(1, "a")
    story.look(2, "a")

    assert story.exit(1) == [Revoke(2, 1)]
    assert story.tell(Released(2)) == []


# Models that are not there --------------------------------------------------------------


def test_a_look_loads_what_fits_at_once():
    story = Story("a", "b", models_max=2)
    story.idle(1, "b")

    assert started(story.look(2, "a")) == ["a"]
    assert granted(story.ready("a")) == [2]


def test_a_model_that_was_loaded_for_a_look_goes_like_any_other():
    story = Story("a", "b", models_max=1)
    story.look(1, "a")
    story.ready("a")
    story.release(1)

    assert story.ask(2, "b") == [AskExit(1, Reason.EVICTED, "b")]


def test_a_look_evicts_nobody():
    story = Story("a", "b", models_max=1)
    story.idle(1, "b")

    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    assert story.of("b").state == "loaded"


def test_a_look_drains_nobody():
    story = Story("a", "b", models_max=1, max_wait_seconds=0, quantum_seconds=0)
    story.busy(1, "b")

    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    assert story.wait(100) == []


def test_a_look_waits_for_nobody():
    story = Story("a", "b", "c", models_max=3)
    story.ask(1, "b")

    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    assert granted(story.ready("b")) == [1]


def test_a_look_loads_nothing_while_another_model_loads():
    story = Story("a", "b")
    story.ask(1, "b")
    story.cancel(1)

    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    assert story.of("b").state == "loading"


def test_a_look_loads_nothing_while_room_is_still_on_its_way():
    story = Story("a", "b", models_max=1)
    story.idle(1, "b")
    story.edit("a")

    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    assert story.exit(1) == []


def test_a_look_loads_nothing_that_would_go_again_at_once():
    story = Story("a", keep_alive_seconds=0)

    assert codes(story.look(1, "a")) == {1: "model_not_loaded"}


def test_a_look_loads_nothing_that_has_no_room_in_memory():
    story = Story(preset("a", need=(("gpu", 10),)), preset("b", need=(("gpu", 14),)))
    story.devices(gpu=20)
    story.idle(1, "b")

    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    story.devices(gpu=24)
    assert started(story.look(3, "a")) == ["a"]


def test_a_look_wakes_nobody():
    story = Story("a")
    story.sleeping(1, "a")

    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    assert story.of("a").state == "sleeping"


def test_a_look_at_what_drains_for_another_is_refused():
    story = Story("a", "b", models_max=1, max_wait_seconds=0)
    story.busy(1, "a")
    story.ask(2, "b")
    assert story.of("a").state == "draining"

    assert codes(story.look(3, "a")) == {3: "model_not_loaded"}


def test_a_look_gives_its_model_no_place_in_the_queue():
    story = Story("a", "b", models_max=1)
    story.look(1, "a")
    story.ask(2, "b")

    assert story.queue[0] == "b"


def test_a_look_at_what_nobody_knows_is_refused_as_any_request_is():
    story = Story("a")

    assert codes(story.look(1, "b")) == {1: "model_not_found"}


def test_nobody_looks_any_more_after_a_shutdown_was_asked_for():
    story = Story("a")
    story.idle(1, "a")
    story.tell(ShutdownAsked())

    assert codes(story.look(2, "a")) == {2: "shutting_down"}


def test_a_look_loads_nothing_anew_that_an_edit_would_let_end_at_once():
    story = Story("a")
    story.look(1, "a")

    edited = story.edit(preset("a", "g", keep_alive_seconds=0.0))

    assert codes(edited) == {1: "model_not_loaded"}
    assert not started(edited + story.exit(1))
