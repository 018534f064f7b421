"""V1, V2: who never goes, and who goes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.decisions import AskExit, Kill, Reason, Wake
from scheduler.core.events import Cancelled
from scheduler.core.values import Kind, VictimPolicy

from .story import Story, codes, preset, started


def test_an_instance_whose_answer_is_read_is_no_victim():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")

    assert story.ask(2, "b") == []


def test_a_loading_instance_that_is_waited_for_is_no_victim():
    story = Story("a", "b", models_max=1, models_max_loading=2)
    story.ask(1, "a")

    assert story.ask(2, "b") == []


def test_a_pinned_instance_is_no_victim():
    story = Story(preset("a", pinned=True), "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_a_sleeper_is_no_victim_for_an_entry_behind_its_own_nor_for_its_own():
    """b loads, so that the wake waits its turn; c is behind it."""
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")
    story.ask(4, "c")

    assert story.ready("b")[1:] == [Wake(1)]


def test_a_sleeper_makes_way_for_an_entry_before_its_own():
    story = Story("a", "b", "d", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")
    story.ask(4, "d", arrived=1.0)

    assert story.ready("b")[1:] == [AskExit(1, Reason.EVICTED, "d")]


def test_an_instance_full_of_abandoned_leases_stays_for_an_older_waiter_of_its_own():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")

    assert story.abandon(1) == []


def test_a_younger_waiter_of_its_own_does_not_protect_it():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")

    assert story.abandon(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_the_least_recently_used_goes():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.busy(3, "a")
    story.release(3)

    assert story.ask(4, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_what_is_asked_for_often_outlasts_what_was_used_a_moment_ago():
    story = Story("a", "b", "c", models_max=2)
    for request in range(1, 11):
        story.idle(request, "a")
        story.wait(30)
    story.idle(11, "b")

    assert story.ask(12, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_what_nobody_asks_for_any_more_does_not_outlast_it_for_ever():
    story = Story("a", "b", "c", models_max=2)
    for request in range(1, 11):
        story.idle(request, "a")
        story.wait(30)
    story.wait(3600)
    for request in range(11, 14):
        story.idle(request, "b")
        story.wait(30)

    assert story.ask(14, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_under_lru_nothing_counts_but_the_last_use():
    story = Story("a", "b", "c", models_max=2, victim_policy=VictimPolicy.LRU)
    for request in range(1, 11):
        story.idle(request, "a")
    story.idle(11, "b")

    assert story.ask(12, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_who_was_refused_has_asked_for_nothing():
    """Else a crowd that is not let in would keep a model loaded."""
    story = Story("a", "b", "c", models_max=2, queue_limit_per_preset=1)
    for request in range(1, 11):
        story.idle(request, "a")
    for request in range(11, 111):
        story.ask(request, "b")
        story.ready("b")
    for request in range(11, 111):
        story.release(request)

    assert story.ask(111, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_an_eviction_says_how_often_the_victim_was_asked_for():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.idle(2, "a")
    story.wait(60)

    (decision,) = story.ask(3, "b")

    assert dict(decision.figures)["asked_every"] == pytest.approx(930, abs=5)


def test_who_was_renamed_is_asked_for_as_often():
    story = Story("a", "b", "c", models_max=2)
    for request in range(1, 11):
        story.idle(request, "a")
    story.wait(5)
    story.rename("a", "z", "b", "c", to="z")
    story.exit(1)
    story.idle(11, "z")
    story.idle(12, "b")
    story.idle(13, "b")

    assert story.ask(14, "c") == [AskExit(3, Reason.EVICTED, "c")]


def test_a_websocket_counts_as_use_when_it_begins():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.ask(3, "a", Kind.WEBSOCKET)
    story.release(3)

    assert story.ask(4, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_how_long_a_websocket_lasted_says_nothing_of_answers():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.release(1, after=10.0)
    story.ask(2, "a", Kind.WEBSOCKET)
    story.release(2, after=3600.0)
    story.ask(3, "a")
    story.ask(4, "b")

    assert 0 < story.planner.retry_after("b", story.now) < 120


def test_a_release_is_no_use():
    story = Story("a", "b", "c", models_max=2)
    story.busy(1, "a")
    story.idle(2, "b")
    story.release(1)

    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_a_persons_load_of_what_is_loaded_is_no_use():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.ask(3, "a", Kind.LOAD)

    assert story.ask(4, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_a_sleeper_goes_before_what_was_used_longer_ago():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.sleeping(2, "b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_a_load_that_nobody_wanted_any_more_goes_first():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.tell(Cancelled(2))
    story.ready("b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_what_was_used_after_all_is_not_first_in_line_any_more():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.tell(Cancelled(2))
    story.ready("b")
    story.idle(3, "b")

    assert story.ask(4, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_an_unwanted_load_under_way_is_killed_before_an_idle_instance_goes():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.ask(2, "b")
    story.tell(Cancelled(2))

    assert story.ask(3, "c") == [Kill(2, Reason.UNWANTED, "c")]
    assert started(story.exit(2)) == ["c"]


def test_an_answer_nobody_reads_is_not_waited_for():
    """A request that is not streamed, abandoned early in a long answer; B waits for that room."""
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")

    assert story.abandon(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_what_works_for_nobody_goes_last_among_the_idle():
    story = Story("a", "b", "c", models_max=2)
    story.busy(1, "a")
    story.abandon(1)
    story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_an_abandoned_lease_beside_a_read_one_protects_no_less():
    story = Story(preset("a", parallel=2), "b", models_max=1)
    story.busy(1, "a")
    story.busy(2, "a")
    story.abandon(1)

    assert story.ask(3, "b") == []


def test_only_the_head_evicts():
    story = Story("a", "b", "c", "d", models_max=2)
    story.busy(1, "a")
    story.busy(2, "b")
    story.ask(3, "c")
    story.ask(4, "d")

    assert story.release(2) == [AskExit(2, Reason.EVICTED, "c")]


def test_a_pin_set_too_late_does_not_refuse_whom_the_room_was_made_for():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")

    assert codes(story.edit(preset("a", pinned=True), "b")) == {}
    assert started(story.exit(1)) == ["b"]


@given(
    st.lists(st.sampled_from(["idle", "sleeping", "busy", "left", "unwanted"]), max_size=5),
    st.sets(st.integers(0, 4)),
)
def test_the_victim_is_the_least_recently_used_of_the_best_class(states, pinned):
    """left: it works for nobody; unwanted: it was loaded, and nobody wanted it any more."""
    names = "abcde"[: len(states)]
    story = Story(*names, "head", models_max=len(states), max_wait_seconds=1e9)
    for request, (name, state) in enumerate(zip(names, states, strict=True)):
        if state == "unwanted":
            story.ask(request, name)
            story.cancel(request)
            story.ready(name)
        else:
            getattr(story, "busy" if state == "left" else state)(request, name)
        if state == "left":
            story.abandon(request)
    story.edit(*(preset(n, pinned=k in pinned) for k, n in enumerate(names)), "head")

    answer = story.ask(100, "head")

    order = ["unwanted", "sleeping", "idle", "left"]
    able = [k for k, state in enumerate(states) if state != "busy" and k not in pinned]
    if not states:
        assert started(answer) == ["head"]
    elif able:
        best = min(able, key=lambda k: (order.index(states[k]), k))
        assert answer == [AskExit(best + 1, Reason.EVICTED, "head")]
    else:
        assert started(answer) == []
        assert not any(isinstance(decision, AskExit) for decision in answer)
