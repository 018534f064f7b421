"""More than one instance of a preset: when a further one starts, who is sent where, who goes."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Grant, Kill, Reason
from scheduler.core.values import Exit

from .story import Story, preset, started

GPUS = {"gpu0": 10, "gpu1": 10}


def two(name: str = "a", need=(("gpu0", 10),), **options):
    return preset(name, need=need, replicas=2, **options)


def loaded(story: Story, request: int, name: str) -> int:
    assert started(story.ask(request, name)) == [name]
    story.ready(name)
    return max(story.planner.instances)


def test_a_saturated_preset_gets_a_further_replica():
    story = Story(two(need=()), models_max=4)
    loaded(story, 1, "a")

    assert started(story.ask(2, "a")) == ["a"]


def test_one_with_a_free_slot_gets_none():
    story = Story(two(need=(), parallel=2), models_max=4)
    loaded(story, 1, "a")

    assert story.ask(2, "a") == [Grant(2, 1)]


def test_no_more_replicas_than_it_may_have():
    story = Story(two(need=()), models_max=4)
    loaded(story, 1, "a")
    story.ask(2, "a")
    story.ready("a")

    assert started(story.ask(3, "a")) == []
    assert len(story.planner.instances) == 2


def test_a_replica_evicts_nobody():
    story = Story(two(need=()), "b", models_max=2)
    story.idle(9, "b")
    loaded(story, 1, "a")

    assert story.ask(2, "a") == []


def test_a_replica_does_not_start_while_somebody_waits_for_a_first_instance():
    story = Story(two(need=()), "b", models_max=3)
    loaded(story, 1, "a")
    story.ask(2, "b")

    assert started(story.ask(3, "a")) == []


def test_the_least_loaded_is_leased():
    story = Story(two(need=(), parallel=2), models_max=4)
    loaded(story, 1, "a")
    story.ask(2, "a")
    story.ask(3, "a")
    story.ready("a")
    story.ask(4, "a")
    story.release(1)
    story.release(2)

    assert story.ask(5, "a") == [Grant(5, 1)]


def test_who_is_sticky_comes_to_the_same_one_each_time():
    story = Story(two(need=(), parallel=4), models_max=4)
    loaded(story, 1, "a")
    for request in (2, 3, 4, 5):
        story.ask(request, "a")
    story.ready("a")
    for request in (1, 2, 3, 4, 5):
        story.release(request)

    chosen = []
    for request in range(10, 20):
        (grant,) = story.ask(request, "a", sticky="conversation-7")
        chosen.append(grant.instance)
        story.release(request)

    assert len(set(chosen)) == 1


def test_different_conversations_come_to_different_ones():
    story = Story(two(need=(), parallel=4), models_max=4)
    loaded(story, 1, "a")
    for request in (2, 3, 4, 5):
        story.ask(request, "a")
    story.ready("a")
    for request in (1, 2, 3, 4, 5):
        story.release(request)

    chosen = set()
    for request in range(10, 30):
        (grant,) = story.ask(request, "a", sticky=f"conversation-{request}")
        chosen.add(grant.instance)
        story.release(request)

    assert chosen == {1, 2}


def test_an_idle_replica_goes_before_any_last_instance():
    story = Story(two(need=()), "b", "c", models_max=3)
    story.idle(9, "b")
    loaded(story, 1, "a")
    story.ask(2, "a")
    story.ready("a")
    story.release(2)

    assert story.ask(3, "c") == [AskExit(3, Reason.EVICTED, "c")]


def test_a_busy_replica_drains_at_once_for_who_has_no_instance():
    story = Story(two(need=()), "b", models_max=2)
    loaded(story, 1, "a")
    story.ask(2, "a")
    story.ready("a")

    assert story.ask(3, "b") == [Drain(1, Reason.EVICTED, "b")]


def test_scenario_14_a_replicas_load_is_killed_for_who_needs_its_room():
    story = Story(two(need=(("gpu0", 6),)), preset("b", need=(("gpu0", 6),)), models_max=4)
    story.devices(gpu0=14)
    loaded(story, 1, "a")
    assert started(story.ask(2, "a")) == ["a"]

    assert story.ask(3, "b") == [Kill(2, Reason.UNWANTED, "b")]
    assert started(story.exit(2)) == ["b"]


def test_a_replica_that_does_not_load_takes_nothing_from_those_who_wait():
    story = Story(two(need=()), models_max=4)
    loaded(story, 1, "a")
    story.ask(2, "a")

    assert story.exit(2, Exit(code=1)) == []
    assert story.release(1) == [Grant(2, 1)]
