"""A7: the queue is bounded, as a whole, for each preset and for each tenant."""

from __future__ import annotations

import pytest

from scheduler.core.values import Exit, Kind

from .story import Story, codes, granted, preset, refused


def test_no_more_wait_for_one_preset_than_may():
    story = Story("a", "b", queue_limit_per_preset=2)
    story.ask(1, "a")
    story.ask(2, "a")

    assert codes(story.ask(3, "a")) == {3: "model_queue_full"}
    assert codes(story.ask(4, "b")) == {}


def test_a_preset_may_have_a_limit_of_its_own():
    story = Story(preset("a", queue_limit=1), "b", queue_limit_per_preset=2)
    story.ask(1, "a")
    story.ask(2, "b")

    assert codes(story.ask(3, "a")) == {3: "model_queue_full"}
    assert codes(story.ask(4, "b")) == {}


def test_a_limit_of_0_for_each_preset_is_none():
    story = Story("a", queue_limit_per_preset=0)

    assert not any(codes(story.ask(request, "a", after=0.1)) for request in range(1, 500))


def test_no_more_of_one_tenant_wait_than_may():
    story = Story("a", "b", "c", queue_limit_per_tenant=2)
    story.ask(1, "a", tenant="x")
    story.ask(2, "b", tenant="x")

    assert codes(story.ask(3, "c", tenant="x")) == {3: "tenant_queue_full"}
    assert codes(story.ask(4, "a", tenant="y")) == {}


def test_the_whole_queue_is_full_for_every_tenant_and_preset():
    story = Story("a", "b", queue_limit=2)
    story.ask(1, "a", tenant="x")
    story.ask(2, "a", tenant="x")

    assert codes(story.ask(3, "b", tenant="y")) == {3: "queue_full"}


LIMITS = ["queue_limit", "queue_limit_per_preset", "queue_limit_per_tenant"]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("how", ["leaves", "is answered"])
def test_who_leaves_or_is_answered_makes_a_place_for_the_next(limit, how):
    story = Story(preset("a", parallel=2), **{limit: 2})
    story.ask(1, "a", tenant="x")
    story.ask(2, "a", tenant="x")
    assert refused(story.ask(3, "a", tenant="x"))
    if how == "leaves":
        story.cancel(1)
        places = 1
    else:
        story.ready("a")
        places = 2

    answers = [story.ask(request, "a", tenant="x") for request in range(10, 13)]

    assert [bool(refused(answer)) for answer in answers] == [n >= places for n in range(3)]


@pytest.mark.parametrize("limit", ["queue_limit", "queue_limit_per_tenant"])
def test_what_need_not_wait_is_not_refused(limit):
    story = Story(preset("a", parallel=2), "b", **{limit: 1})
    story.busy(1, "a", tenant="x")
    story.ask(2, "b", tenant="x")

    assert granted(story.ask(3, "a", tenant="x")) == [3]


@pytest.mark.parametrize("limit", LIMITS)
def test_who_is_refused_has_left_nothing_behind(limit):
    story = Story("a", **{limit: 1})
    story.ask(1, "a", tenant="x")
    for request in range(2, 20):
        assert refused(story.ask(request, "a", tenant="x"))

    assert [entry.waiters for entry in story.planner.entries(story.now)] == [1]
    assert granted(story.ready("a")) == [1]


@pytest.mark.parametrize("limit", LIMITS[1:])
@pytest.mark.parametrize("kind", [Kind.LOAD, Kind.STARTUP, Kind.GET])
def test_loads_and_looks_count_in_no_limit_of_a_model_or_a_tenant(limit, kind):
    story = Story("a", **{limit: 1})
    for request in range(1, 4):
        assert not refused(story.ask(request, "a", kind, tenant="x"))

    assert not refused(story.ask(4, "a", tenant="x"))
    assert refused(story.ask(5, "a", tenant="x"))
    assert not refused(story.ask(6, "a", kind, tenant="x"))


# When to come back ----------------------------------------------------------------------


def retry_after(answer) -> float:
    [refusal] = refused(answer).values()
    assert refusal.retry_after_seconds is not None
    return refusal.retry_after_seconds


@pytest.mark.parametrize("limit", LIMITS)
def test_who_finds_the_queue_full_is_told_when_to_come_back(limit):
    story = Story("a", **{limit: 1})
    story.ask(1, "a", tenant="x")

    assert retry_after(story.ask(2, "a", tenant="x")) > 0


def test_who_has_waited_too_long_is_told_when_to_come_back():
    story = Story("a", "b", models_max=1, queue_wait_seconds=20)
    story.busy(1, "a")
    story.ask(2, "b")

    answer = story.wait(20)

    assert codes(answer) == {2: "queue_timeout"}
    assert retry_after(answer) > 0


def test_who_comes_while_a_preset_backs_off_is_told_when_that_ends():
    story = Story("a")
    story.ask(1, "a")
    story.exit(1, Exit(code=1))

    assert retry_after(story.ask(2, "a", after=0.25)) >= 0.75


def full(load_seconds: float | None, models: int) -> float:
    """What one is told who finds that so many models are to be loaded before."""
    names = [f"m{n}" for n in range(models)]
    presets = [preset(name, load_seconds=load_seconds) for name in names]
    story = Story(*presets, models_max=1, queue_limit=models)
    for request, name in enumerate(names):
        story.ask(request, name)
    return retry_after(story.ask(1000, names[-1]))


def test_one_is_sent_away_for_longer_when_models_take_longer_to_load():
    assert full(60.0, 3) > full(6.0, 3)


def test_one_is_sent_away_for_longer_the_more_models_are_to_be_loaded_before():
    assert full(10.0, 12) > full(10.0, 4) > full(10.0, 2)


def test_how_long_loads_take_is_learned():
    def after_loads_of(seconds: float) -> float:
        story = Story("a")
        for request in range(5):
            story.ask(request, "a")
            story.wait(seconds)
            story.ready("a")
            story.release(request)
            story.exit(story.of("a").id)
        return story.planner.retry_after("a", story.now)

    assert after_loads_of(90) > after_loads_of(3) > 0


def test_what_the_record_knows_of_a_load_counts_until_something_is_learned():
    story = Story(preset("a", load_seconds=120.0), preset("b", load_seconds=3.0))

    a, b = (story.planner.retry_after(name, story.now) for name in "ab")

    assert a > b > 0


# Bounds are there to be raised ----------------------------------------------------------


def test_ten_thousand_wait_where_that_is_allowed():
    story = Story(preset("a", parallel=4), queue_limit=20_000, queue_limit_per_tenant=20_000)
    for request in range(10_000):
        assert codes(story.ask(request, "a", after=0.001)) == {}

    served = granted(story.ready("a"))
    while len(served) < 10_000:
        served += granted(story.release(served[len(served) - 4], after=0.001))

    assert served == list(range(10_000))
