"""A5: how many may run, and when one more victim is asked."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Reason, Start

from .story import Story, codes, granted, preset, refused, started


def test_the_worked_example_evicts_the_idle_one():
    """models_max 2; A busy (used at 100), B idle (used at 90), C queued: B goes, then C loads."""
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "b")
    story.busy(2, "a")

    assert story.ask(3, "c") == [AskExit(story.of("b").id, Reason.EVICTED, "c")]
    assert started(story.exit(story.of("b").id)) == ["c"]


def test_the_worked_example_evicts_the_older_of_two_idle_ones():
    """With A idle and B newer the victim is A."""
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(story.of("a").id, Reason.EVICTED, "c")]


def test_a_start_waits_until_its_victim_has_exited():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")

    assert started(story.ask(2, "b")) == []
    assert story.wait(1) == []
    assert started(story.exit(1)) == ["b"]


def test_one_victim_is_enough_for_one_start():
    story = Story("a", "b", "c", "d", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.ask(3, "c")

    assert story.ask(4, "c") == []
    assert story.ask(5, "d") == []
    assert story.wait(1) == []


def test_nobody_is_evicted_for_a_start_that_has_happened():
    """models_max 2; A and B asleep; C arrives; while C loads, a request for A."""
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.sleeping(2, "b")
    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]
    assert started(story.exit(1)) == ["c"]

    # A's entry waits for C's loader; B is not stopped for it before.
    assert story.ask(4, "a") == []
    assert story.ready("c")[1:] == [AskExit(2, Reason.EVICTED, "a")]


def test_a_wake_needs_no_slot_and_evicts_nobody():
    story = Story("a", "b", models_max=2)
    story.sleeping(1, "a")
    story.idle(2, "b")

    story.ask(3, "a")

    assert story.alive == ["a", "b"]
    assert story.of("b").state == "loaded"


def test_busy_instances_are_waited_for():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")

    assert story.ask(2, "b") == []
    assert story.release(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_a_models_max_of_0_is_no_limit():
    story = Story(*"abcdef", models_max=0)

    for request, name in enumerate("abcdef"):
        story.idle(request, name)

    assert story.alive == list("abcdef")


def test_a_crash_gives_its_slot_to_the_head():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")

    assert started(story.exit(1)) == ["b"]


def test_a_stopping_instance_counts_until_it_has_exited():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.busy(2, "b")
    story.ask(3, "c")

    story.wait(60)

    assert story.alive == ["a", "b"]
    assert started(story.exit(1)) == ["c"]


def test_two_presets_do_not_evict_each_other_while_both_are_waited_for():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")

    assert granted(story.release(1)) == [3]
    assert story.release(3) == [AskExit(1, Reason.EVICTED, "b")]
    assert isinstance(story.exit(1)[0], Start)
    assert granted(story.ready("b")) == [2]


@pytest.mark.parametrize("state", ["idle", "busy", "sleeping"])
def test_pins_that_fill_every_slot_refuse_the_head_and_are_named(state):
    story = Story(preset("a", pinned=True), preset("b", pinned=True), "c", models_max=2)
    getattr(story, state)(1, "a")
    story.idle(2, "b")

    answer = story.ask(3, "c")

    assert codes(answer) == {3: "blocked_by_pinned"}
    assert refused(answer)[3].blocked_by == ("a", "b")


def test_pins_beside_a_busy_instance_do_not_refuse():
    story = Story(preset("a", pinned=True), "b", "c", models_max=2)
    story.idle(1, "a")
    story.busy(2, "b")

    assert story.ask(3, "c") == []


def test_a_preset_is_never_blocked_by_its_own_instance():
    pinned = preset("a", "old", pinned=True)
    story = Story(pinned, models_max=1)
    story.busy(1, "a")
    story.edit(preset("a", "new", pinned=True))

    assert codes(story.ask(2, "a")) == {}


def test_a_pin_is_looked_at_whenever_the_head_is_derived():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")

    assert codes(story.edit(preset("a", pinned=True), "b")) == {2: "blocked_by_pinned"}


def test_an_unpinned_instance_makes_way():
    story = Story(preset("a", pinned=True), "b", models_max=1)
    story.idle(1, "a")
    assert codes(story.ask(2, "b")) == {2: "blocked_by_pinned"}

    story.edit("a", "b")

    assert story.ask(3, "b") == [AskExit(1, Reason.EVICTED, "b")]


def test_200_requests_over_3_presets_need_3_loads():
    story = Story(*(preset(name, parallel=4) for name in "abc"), models_max=2)
    starts: list[str] = []
    waiting = dict.fromkeys(range(200))
    leased: list[int] = []
    for request in waiting:
        starts += started(story.ask(request, "abc"[request % 3], after=0.01))
    for _ in range(1000):
        instances = list(story.planner.instances.values())
        if loading := [i for i in instances if i.state == "loading"]:
            answer = story.ready(loading[0].preset.name)
        elif stopping := [i for i in instances if i.state == "stopping"]:
            answer = story.exit(stopping[0].id)
        elif leased:
            answer = story.release(leased.pop(0), after=0.1)
        else:
            break
        starts += started(answer)
        leased += granted(answer)
        for request in granted(answer):
            del waiting[request]

    assert not waiting
    assert sorted(starts) == ["a", "b", "c"]
