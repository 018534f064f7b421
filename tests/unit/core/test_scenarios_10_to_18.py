"""The second half of the scenarios that the rules were walked through, in virtual time.

What a scenario asks of real processes stands in tests/process and tests/e2e, what it asks of memory
in test_scenarios_with_memory.py.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler.core.decisions import AskExit, Drain, Reason, Revoke, Start, Undrain
from scheduler.core.events import SlotsSeen
from scheduler.core.values import Exit, Kind

from .stage import Client, Stage
from .story import Story, codes, granted, preset, refused, started

# 10: weights between models -------------------------------------------------------------


@pytest.fixture(scope="module")
def unequal_tenants() -> Stage:
    """x (3) wants a, y (1) wants b, both for longer than anybody looks; one model at a time."""
    stage = Stage("a", "b", models_max=1, queue_wait_seconds=1e9)
    for _ in range(900):
        stage.comes(0.0, Client("a", 2.0, tenant="x", weight=3.0, again=False))
        stage.comes(0.0, Client("b", 2.0, tenant="y", weight=1.0, again=False))
    stage.run(1500)
    return stage


def test_scenario_10_served_tokens_tend_to_the_weights_of_the_tenants(unequal_tenants):
    x, y = (unequal_tenants.seconds_served(tenant, since=100) for tenant in "xy")

    assert 2.3 < x / y < 3.9


def test_scenario_10_nobody_waits_beyond_the_bound(unequal_tenants):
    """Per entry before it: max_wait, one drain and one load."""
    for name in "ab":
        served = sorted(a.granted for a in unequal_tenants.of(name) if a.granted is not None)
        gaps = [after - before for before, after in pairwise(served)]

        assert max(gaps) <= 2 * (30 + 2 + unequal_tenants.exit_seconds + 2)


# 11: pins -------------------------------------------------------------------------------


def test_scenario_11_a_pinned_model_refuses_the_head_by_name_until_it_is_unpinned():
    story = Story(preset("a", pinned=True), "b", models_max=1)
    story.idle(1, "a")

    answer = story.ask(2, "b")
    assert codes(answer) == {2: "blocked_by_pinned"}
    assert refused(answer)[2].blocked_by == ("a",)

    story.edit("a", "b")
    assert story.ask(3, "b") == [AskExit(1, Reason.EVICTED, "b")]
    assert started(story.exit(1)) == ["b"]
    assert granted(story.ready("b")) == [3]


def test_scenario_11_a_drain_is_undone_when_its_instance_is_pinned():
    story = Story("a", "b", models_max=1, max_wait_seconds=0)
    story.busy(1, "a")
    assert story.ask(2, "b") == [Drain(1, Reason.EVICTED, "b")]

    answer = story.edit(preset("a", pinned=True), "b")

    assert Undrain(1, Reason.NO_LONGER_NEEDED) in answer
    assert codes(answer) == {2: "blocked_by_pinned"}
    assert story.of("a").state == "loaded"


def test_scenario_11_a_pin_that_comes_after_the_exit_was_asked_for_changes_nothing():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")

    assert story.edit(preset("a", pinned=True), "b") == []
    assert started(story.exit(1)) == ["b"]


# 12: an answer that nobody reads --------------------------------------------------------


def test_scenario_12_an_answer_that_nobody_reads_is_not_waited_for():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.abandon(1)

    assert story.ask(2, "b") == [AskExit(1, Reason.EVICTED, "b")]


def test_scenario_12_its_instance_is_the_last_victim_among_the_idle():
    story = Story("a", "b", "c", models_max=2)
    story.busy(1, "a")
    story.abandon(1)
    story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(story.of("b").id, Reason.EVICTED, "c")]


# 13: a web process is killed ------------------------------------------------------------


def test_scenario_13_abandoned_leases_end_as_their_slots_fall_idle_and_others_stay():
    """The planner's share: that a broken connection abandons its leases is the shell's."""
    story = Story(preset("a", parallel=24))
    for request in range(1, 25):
        story.busy(request, "a")
    dead, others = set(range(1, 21)), {21, 22, 23, 24}
    for request in dead:
        story.abandon(request)

    story.tell(SlotsSeen(1, busy=12))  # the streamed ones have ended, eight work on
    assert len(story.leases("a")) == 12
    assert others < story.leases("a")

    story.tell(SlotsSeen(1, busy=4))
    assert story.leases("a") == others
    assert granted(story.ask(30, "a")) == [30]


# 14: a second instance of a busy model --------------------------------------------------


def test_scenario_14_a_saturated_model_keeps_no_other_from_its_load():
    """Replicas come with the ledger; until then nothing is loaded that could stand in b's way."""
    story = Story("a", "b", models_max=2)
    story.busy(1, "a")
    for request in range(2, 12):
        assert story.ask(request, "a") == []

    assert started(story.ask(20, "b")) == ["b"]


# 15: looks ------------------------------------------------------------------------------


def test_scenario_15_a_look_loads_only_what_fits_at_once():
    story = Story("a", "b", models_max=1)

    assert started(story.look(1, "a")) == ["a"]
    assert granted(story.ready("a")) == [1]
    assert codes(story.look(2, "b")) == {2: "model_not_loaded"}


def test_scenario_15_a_look_wakes_no_sleeper_and_revives_no_drain():
    """That a sleeper answers from its last known state is the shell's."""
    story = Story("a", "b", models_max=1, max_wait_seconds=0)
    story.sleeping(1, "a")
    assert codes(story.look(2, "a")) == {2: "model_not_loaded"}
    story.ask(3, "a")
    story.ready("a")
    story.ask(4, "b")
    assert story.of("a").state == "draining"

    assert codes(story.look(5, "a")) == {5: "model_not_loaded"}


def test_scenario_15_polling_keeps_nothing_alive():
    story = Story("a", keep_alive_seconds=60)
    story.idle(1, "a")
    end = story.now + 60
    for request in range(2, 30):
        story.look(request, "a", after=2)

    assert AskExit(1, Reason.IDLE) in [d for _, d in story.through(end)]


# 16: start-up ---------------------------------------------------------------------------


@pytest.mark.parametrize("short_of", ["slots", "memory"])
def test_scenario_16_two_of_three_load_on_start_up_and_the_third_is_skipped(short_of):
    """That a grant leaves room for the third's minimum stands in test_scenarios_with_memory.py."""
    presets = [preset(name, need=(("gpu", 10),)) for name in "abc"]
    story = Story(*presets, models_max=2 if short_of == "slots" else 8)
    if short_of == "memory":
        story.devices(gpu=25)
    answers = [story.ask(n, name, Kind.STARTUP) for n, name in enumerate("abc", start=1)]
    assert [started(answer) for answer in answers] == [["a"], [], []]

    assert started(story.ready("a")) == ["b"]
    assert codes(story.ready("b")) == {3: "does_not_fit"}
    assert story.alive == ["a", "b"]


def test_scenario_16_nothing_is_skipped_while_something_is_stopping():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.edit("b", "c")
    assert story.of("a").state == "stopping"

    assert story.ask(3, "c", Kind.STARTUP) == []
    assert story.exit(1) == [Start(3, preset("c"), Reason.STARTUP)]


# 17: keep-alive 0 -----------------------------------------------------------------------


def test_scenario_17_a_waiter_before_the_last_release_is_served_without_a_reload():
    story = Story("a", keep_alive_seconds=0)
    story.busy(1, "a")
    story.ask(2, "a", after=0)

    assert granted(story.release(1, after=0)) == [2]


def test_scenario_17_a_request_after_the_last_release_is_served_by_a_new_load():
    story = Story("a", keep_alive_seconds=0)
    story.busy(1, "a")
    assert story.release(1) == [AskExit(1, Reason.IDLE)]

    answer = story.ask(2, "a", after=0) + story.exit(1)

    assert started(answer) == ["a"]
    assert granted(story.ready("a")) == [2]
    assert story.release(2) == [AskExit(2, Reason.IDLE)]


def test_scenario_17_a_persons_load_waits_for_its_first_use():
    story = Story("a", keep_alive_seconds=0)
    story.ask(1, "a", Kind.LOAD)
    story.ready("a")
    assert story.wait(3600) == []

    story.busy(2, "a")
    assert story.release(2) == [AskExit(1, Reason.IDLE)]


# 18: a large body -----------------------------------------------------------------------


def test_scenario_18_who_leaves_the_queue_leaves_nothing_and_a_retry_keeps_its_place():
    """The planner's share; the body and its spool are the proxy's."""
    story = Story("a", "b", models_max=1)
    story.ask(1, "a")
    story.ask(2, "a")
    story.cancel(1)
    assert granted(story.ready("a")) == [2]
    first_arrival = story.now - 2
    story.ask(3, "a")
    story.ask(4, "b")

    assert story.exit(1, Exit(signal=9))[0] == Revoke(2, 1)
    story.ask(5, "a", arrived=first_arrival)
    assert granted(story.ready("a")) == [5]
