"""A1, A8: priority classes, the tenants' shares, and how many leases an instance takes."""

from __future__ import annotations

import pytest

from scheduler.core.values import Kind, Priority

from .stage import Client, Stage
from .story import Story, granted, preset

LOW, NORMAL, HIGH = Priority


def patient(*presets) -> Story:
    """One model at a time, and none makes way while it is busy."""
    times = {"max_wait_seconds": 2000, "quantum_seconds": 2000, "share_window_seconds": 60}
    return Story(*presets, models_max=1, max_priority_jump_seconds=60, **times)


def held() -> Story:
    """The only slot of a is taken; two more presets have no room. It is 100."""
    story = patient("a", "b", "c")
    story.busy(1, "a")
    story.until(100)
    return story


# Priority -------------------------------------------------------------------------------

# Who arrived at 100 with the second class, and so many seconds before with the first: who is next?
CLASSES = [
    (NORMAL, HIGH, 29, "second"),
    (NORMAL, HIGH, 31, "first"),
    (LOW, NORMAL, 29, "second"),
    (LOW, NORMAL, 31, "first"),
    (LOW, HIGH, 59, "second"),
    (LOW, HIGH, 61, "first"),
    (HIGH, NORMAL, 1, "first"),
    (NORMAL, NORMAL, 1, "first"),
]


@pytest.mark.parametrize(("first", "second", "seconds", "next_one"), CLASSES)
def test_a_higher_class_counts_as_arrived_earlier_within_a_bound(first, second, seconds, next_one):
    story = held()
    story.ask(2, "a", arrived=100 - seconds, priority=first, after=0)
    story.ask(3, "a", arrived=100, priority=second, after=0)

    assert granted(story.release(1)) == [{"first": 2, "second": 3}[next_one]]


@pytest.mark.parametrize(("first", "second", "seconds", "next_one"), CLASSES)
def test_between_models_priority_counts_as_it_does_within_one(first, second, seconds, next_one):
    story = held()
    story.ask(2, "b", arrived=100 - seconds, priority=first, after=0)
    story.ask(3, "c", arrived=100, priority=second, after=0)

    assert story.queue == {"first": ["b", "c"], "second": ["c", "b"]}[next_one]


def test_how_far_a_class_may_jump_is_configured():
    story = Story("a", max_priority_jump_seconds=10)
    story.busy(1, "a")
    story.until(20)
    story.ask(2, "a", arrived=0, after=0)
    story.ask(3, "a", arrived=6, priority=HIGH, after=0)
    story.ask(4, "a", arrived=4, priority=HIGH, after=0)

    assert granted(story.release(1)) == [4]
    assert granted(story.release(4)) == [2]
    assert granted(story.release(2)) == [3]


@pytest.mark.parametrize(
    ("of_preset", "of_tenant", "same_as"),
    [
        (HIGH, LOW, NORMAL),
        (LOW, HIGH, NORMAL),
        (LOW, LOW, LOW),
        (HIGH, HIGH, HIGH),
        (HIGH, NORMAL, HIGH),
        (LOW, NORMAL, LOW),
    ],
)
def test_the_class_of_a_preset_raises_or_lowers_that_of_the_tenant(of_preset, of_tenant, same_as):
    def order(seconds: float) -> list[str]:
        story = patient("a", preset("b", priority=of_preset), "c")
        story.busy(1, "a")
        story.until(60)
        story.ask(2, "b", arrived=50 + seconds, priority=of_tenant)
        story.ask(3, "c", arrived=50, priority=same_as)
        return story.queue

    assert order(+0.5) == ["c", "b"]
    assert order(-0.5) == ["b", "c"]


def test_an_entry_has_the_place_of_its_best_waiter():
    story = held()
    story.ask(2, "b", arrived=99, after=0)
    story.ask(3, "c", arrived=99.5, after=0)
    story.ask(4, "c", arrived=100, priority=HIGH, after=0)

    assert story.queue == ["c", "b"]

    story.cancel(4)
    assert story.queue == ["b", "c"]


def test_a_load_without_a_request_comes_last_whatever_its_class():
    story = held()
    story.ask(2, "b", Kind.LOAD, arrived=20, priority=HIGH, after=0)
    story.ask(3, "c", arrived=100, priority=LOW, after=0)

    assert story.queue == ["c", "b"]


# Shares ---------------------------------------------------------------------------------


def consumed(*, tokens: int | None = 3000, weight: float = 1.0) -> Story:
    """x has had the model for a minute, z holds its slot."""
    story = patient("a", "b", "c")
    story.busy(2, "a", tenant="x", weight=weight)
    story.release(2, tokens=tokens, after=60)
    story.ask(3, "a", tenant="z")
    return story


@pytest.mark.parametrize("tokens", [3000, None])
def test_who_has_had_the_model_is_served_after_who_has_not(tokens):
    story = consumed(tokens=tokens)
    story.ask(4, "a", tenant="x")
    story.ask(5, "a", tenant="y")

    assert granted(story.release(3, tokens=50)) == [5]


@pytest.mark.parametrize(("weight", "after"), [(1.0, 60.5), (0.1, 331.0)])
def test_what_a_tenant_has_had_pushes_it_back_by_a_bounded_time(weight, after):
    """Whatever its weight, after half of the queue-wait limit and the jump it is its turn."""
    story = consumed(weight=weight)
    story.ask(4, "a", tenant="x", weight=weight)
    story.ask(5, "a", tenant="y", after=after)

    assert granted(story.release(3, tokens=50)) == [4]


def test_what_a_tenant_had_long_ago_does_not_count():
    story = consumed()
    story.wait(900)
    story.ask(4, "a", tenant="x")
    story.ask(5, "a", tenant="y", after=2)

    assert granted(story.release(3, tokens=50)) == [4]


def test_between_models_a_share_counts_as_it_does_within_one():
    story = consumed()
    story.ask(4, "b", tenant="x")
    story.ask(5, "c", tenant="y")

    assert story.queue == ["c", "b"]


def test_among_waiters_of_one_tenant_the_first_to_arrive_is_the_first_served():
    story = consumed()
    for request in range(4, 10):
        story.ask(request, "a", tenant="x")

    served = granted(story.release(3, tokens=50))
    for _ in range(5):
        served += granted(story.release(served[-1], tokens=500))

    assert served == [4, 5, 6, 7, 8, 9]


def test_the_same_use_weighs_less_on_a_tenant_of_more_weight():
    story = patient("a")
    for request, (tenant, weight) in enumerate([("z", 1.0), ("x", 3.0)], start=2):
        story.busy(request, "a", tenant=tenant, weight=weight)
        story.release(request, tokens=2000, after=40)
    story.ask(4, "a", tenant="y")
    story.ask(5, "a", tenant="z", weight=1.0)
    story.ask(6, "a", tenant="x", weight=3.0)

    assert granted(story.release(4, tokens=50)) == [6]


def test_served_seconds_tend_to_the_weights_within_a_model():
    stage = Stage("a", queue_wait_seconds=1e6)
    for _ in range(300):
        stage.comes(0.0, Client("a", 2.0, tenant="x", weight=3.0, again=False))
        stage.comes(0.0, Client("a", 2.0, tenant="y", weight=1.0, again=False))
    stage.run(360)

    x, y = (stage.seconds_served(tenant, since=60) for tenant in "xy")

    assert x + y > 290
    assert 2.4 < x / y < 3.8


def test_who_fills_the_queue_of_one_model_does_not_push_others_back():
    stage = Stage("a", "b", models_max=1, queue_wait_seconds=1e6)
    for _ in range(200):
        stage.comes(0.0, Client("a", 5.0, tenant="x", again=False))
    stage.comes(1.0, Client("b", 5.0, tenant="y", again=False))
    stage.run(300)

    [asked] = stage.of("b")

    assert asked.waited <= 30 + 5 + stage.exit_seconds + stage.load_seconds


# Leases beyond the slots ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallel", "oversubscribe", "leases"), [(3, 1.0, 3), (2, 1.5, 3), (4, 1.25, 5), (1, 2.0, 2)]
)
def test_an_instance_takes_so_many_leases_for_each_slot(parallel, oversubscribe, leases):
    story = Story(preset("a", parallel=parallel), oversubscribe=oversubscribe)
    for request in range(10):
        story.ask(request, "a")

    assert granted(story.ready("a")) == list(range(leases))
    assert granted(story.release(0)) == [leases]


def test_a_crowd_of_one_tenant_does_not_push_back_the_only_one_of_another():
    """However long the crowd's line is, and however old: far beyond the jump."""
    story = Story("a", queue_limit=10_000)
    story.busy(1, "a")
    crowd = iter(range(1000, 5000))
    for _ in range(300):
        story.ask(next(crowd), "a", tenant="x", after=0.0)
    served, serving, waits, asked = [], 1, [], {}
    for request in range(10, 40):
        story.ask(request, "a", tenant="y", after=0.0)
        asked[request] = story.now
        while request in asked:
            story.ask(next(crowd), "a", tenant="x", after=0.0)
            served = granted(story.release(serving, tokens=50))
            (serving,) = served
            if serving in asked:
                waits.append(story.now - asked.pop(serving))

    assert max(waits[5:]) <= 40
    assert sum(waits[5:]) / len(waits[5:]) <= 20
