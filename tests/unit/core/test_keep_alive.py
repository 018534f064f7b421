"""V5: when an idle model goes though nobody needs its room."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Reason
from scheduler.core.events import KeepWished
from scheduler.core.values import Kind

from .story import Story, granted, preset, started

IDLE = AskExit(1, Reason.IDLE)


def test_a_model_that_nobody_has_used_for_its_keep_alive_goes():
    story = Story("a", keep_alive_seconds=60)
    story.idle(1, "a")
    end = story.now + 60
    assert story.timer == end

    assert story.until(end - 0.1) == []
    assert story.until(end) == [IDLE]


def test_a_preset_may_have_a_keep_alive_of_its_own():
    story = Story(preset("a", keep_alive_seconds=5), "b", keep_alive_seconds=60)
    story.idle(1, "a")
    a_until = story.now + 5
    story.idle(2, "b")
    b_until = story.now + 60

    told = [(when, asked) for when, asked in story.through(200) if isinstance(asked, AskExit)]

    assert told == [(a_until, IDLE), (b_until, AskExit(2, Reason.IDLE))]


def test_without_a_keep_alive_a_model_stays_until_its_room_is_needed():
    story = Story("a")
    story.idle(1, "a")

    assert story.wait(1e6) == []


def test_keep_alive_begins_anew_with_each_release():
    story = Story("a", keep_alive_seconds=60)
    story.idle(1, "a")
    story.until(50)
    story.busy(2, "a")
    assert story.until(500) == []
    story.release(2)

    assert story.until(560.9) == []
    assert story.until(561) == [IDLE]


def test_a_model_that_was_never_used_counts_from_when_it_was_loaded():
    story = Story("a", keep_alive_seconds=60)
    story.ask(1, "a", Kind.LOAD)
    story.until(100)
    story.ready("a")

    assert story.until(160.9) == []
    assert story.until(161) == [IDLE]


def test_an_answer_under_way_keeps_its_model():
    story = Story("a", keep_alive_seconds=60)
    story.busy(1, "a")

    assert story.wait(10_000) == []


def test_a_pinned_model_stays():
    story = Story(preset("a", pinned=True), keep_alive_seconds=60)
    story.idle(1, "a")
    assert story.wait(10_000) == []

    told = story.edit("a") + [decision for _, decision in story.through(story.now + 61)]

    assert IDLE in told


def test_a_keep_alive_follows_an_edit_without_a_restart():
    story = Story("a")
    story.idle(1, "a")
    story.edit(preset("a", keep_alive_seconds=30))

    assert IDLE in [decision for _, decision in story.through(story.now + 31)]


def test_a_sleeper_goes_when_its_keep_alive_is_over():
    story = Story("a", keep_alive_seconds=60)
    story.idle(1, "a")
    end = story.now + 60
    story.asleep("a")

    assert story.until(end - 0.1) == []
    assert IDLE in story.until(end) + story.until(end + 1)


def test_keep_alive_protects_nobody_from_eviction():
    story = Story("a", "b", models_max=1, keep_alive_seconds=1e6)
    story.idle(1, "a")

    assert story.ask(2, "b") == [AskExit(1, Reason.EVICTED, "b")]


def test_a_request_in_the_moment_before_keeps_the_model():
    story = Story("a", keep_alive_seconds=60)
    story.idle(1, "a")
    story.until(story.now + 59.9)

    assert granted(story.ask(2, "a", after=0.05)) == [2]
    assert story.wait(5) == []


def test_who_comes_after_an_idle_model_was_asked_to_exit_gets_a_new_one():
    story = Story("a", keep_alive_seconds=60)
    story.idle(1, "a")
    assert story.wait(60) == [IDLE]

    assert started(story.ask(2, "a")) + started(story.exit(1)) == ["a"]
    assert granted(story.ready("a")) == [2]


# 0: as soon as idle ---------------------------------------------------------------------


def test_with_a_keep_alive_of_0_a_model_goes_with_its_last_answer():
    story = Story(preset("a", parallel=2), keep_alive_seconds=0)
    story.ask(1, "a")
    story.ask(2, "a")
    story.ready("a")

    assert story.release(1) == []
    assert story.release(2) == [IDLE]


def test_with_a_keep_alive_of_0_a_waiter_is_served_without_a_reload():
    story = Story("a", keep_alive_seconds=0)
    story.busy(1, "a")
    story.ask(2, "a")

    assert granted(story.release(1)) == [2]
    assert story.release(2) == [IDLE]


@pytest.mark.parametrize("kind", [Kind.LOAD, Kind.STARTUP])
def test_with_a_keep_alive_of_0_what_a_person_loaded_waits_for_its_first_use(kind):
    story = Story("a", keep_alive_seconds=0)
    story.ask(1, "a", kind)
    assert granted(story.ready("a")) == [1]
    assert story.wait(100_000) == []

    assert granted(story.ask(2, "a")) == [2]
    assert story.release(2) == [IDLE]


def test_with_a_keep_alive_of_0_a_model_goes_when_its_waiters_have_left_during_its_load():
    story = Story("a", keep_alive_seconds=0)
    story.ask(1, "a")
    story.cancel(1)

    assert story.ready("a") == [IDLE]


def test_with_a_keep_alive_of_0_a_client_that_leaves_ends_it_too():
    story = Story("a", keep_alive_seconds=0)
    story.busy(1, "a")

    assert story.cancel(1) == [IDLE]


def test_a_preset_may_stay_though_the_others_go_at_once():
    story = Story(preset("a", keep_alive_seconds=1e9), keep_alive_seconds=0)
    story.idle(1, "a")

    assert story.wait(10_000) == []


def used_by(story: Story, **wishes: float | None) -> None:
    """One after the other, each with its wish once it has its lease."""
    for number, (tenant, seconds) in enumerate(wishes.items()):
        story.ask(number, "a", tenant=tenant)
        if story.of("a").leases == {}:
            story.ready("a")
        if seconds is not None:
            story.tell(KeepWished("a", tenant, seconds))
        story.release(number)


@pytest.mark.parametrize(
    ("own", "wishes", "kept"),
    [
        (60, {"blue": 5.0}, 5),
        (60, {"blue": 500.0}, 60),
        (60, {"blue": -1.0}, 60),
        (60, {"blue": 5.0, "red": None}, 60),
        (60, {"red": None, "blue": 5.0}, 60),
        (60, {"red": 20.0, "blue": 5.0}, 20),
        (60, {"blue": 0.0}, 0),
        (None, {"blue": 7.0}, 7),
        (None, {"red": 9.0, "blue": 7.0}, 9),
        (-1, {"blue": 7.0}, 7),
        (0, {"blue": 7.0}, 0),
    ],
)
def test_a_client_may_let_go_early_what_it_alone_uses_and_keeps_nothing_for_longer(
    own, wishes, kept
):
    story = Story(preset("a", keep_alive_seconds=own))
    used_by(story, **wishes)
    last = story.now

    if kept == 0:
        assert story.of("a").reason is Reason.IDLE  # it goes with its last release
    else:
        assert story.through(last + 1000)[0] == (last + kept, IDLE)


def test_the_last_wish_of_a_tenant_counts_and_a_request_without_one_takes_it_back():
    story = Story(preset("a", keep_alive_seconds=60))
    used_by(story, blue=5.0)
    story.ask(50, "a", tenant="blue")
    story.release(50)
    end = story.now + 60

    assert story.until(end - 0.1) == []
    assert story.until(end) == [IDLE]


def test_a_wish_that_comes_when_it_is_idle_counts_at_once():
    story = Story(preset("a", keep_alive_seconds=60))
    used_by(story, blue=None)

    assert story.tell(KeepWished("a", "red", 0.0)) == []  # who has not used it has no say
    assert story.tell(KeepWished("a", "blue", 0.0)) == [IDLE]


def test_what_a_person_has_loaded_is_let_go_by_no_client():
    story = Story(preset("a", keep_alive_seconds=60))
    story.ask(1, "a", Kind.LOAD)
    story.ready("a")
    story.ask(2, "a", tenant="blue")
    story.release(2)

    assert story.tell(KeepWished("a", "blue", 0.0)) == []
