"""A6: when a busy model makes way, and what becomes of its drain."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Drain, Reason, Revoke, Undrain
from scheduler.core.events import UnloadAsked
from scheduler.core.values import Exit, Kind

from .stage import Client, Stage
from .story import Story, codes, granted, preset, started

FOR_B = Drain(1, Reason.EVICTED, "b")


def crowded(*presets, **config) -> Story:
    """One slot; a is loaded at 3 and busy, b is the head since 4."""
    story = Story(*(presets or "ab"), models_max=1, **config)
    story.busy(1, "a")
    assert story.ask(2, "b") == []
    return story


# When it may begin ----------------------------------------------------------------------


def test_a_busy_model_drains_for_the_head_when_its_quantum_is_over():
    story = crowded(quantum_seconds=10)
    assert story.timer == 14

    assert story.until(13.9) == []
    assert story.until(14) == [FOR_B]


def test_a_quantum_counts_from_when_another_waits():
    story = Story("a", "b", models_max=1, quantum_seconds=10)
    story.busy(1, "a")
    story.wait(60)
    story.ask(2, "b")
    begins = story.now

    assert story.through(begins + 20) == [(begins + 10, FOR_B)]


def test_a_quantum_counts_from_when_the_model_is_loaded_where_that_is_later():
    story = Story("a", "b", models_max=1, quantum_seconds=10, max_wait_seconds=500)
    story.ask(1, "a")
    story.ask(2, "b")
    story.until(100)
    story.ready("a")

    assert story.through(120) == [(111, FOR_B)]


def test_no_quantum_lasts_longer_than_the_heads_max_wait():
    story = crowded(quantum_seconds=1000, max_wait_seconds=20)
    assert story.timer == 24

    assert story.until(23.9) == []
    assert story.until(24) == [FOR_B]


def test_a_preset_may_wait_shorter_than_the_others():
    story = crowded("a", preset("b", max_wait_seconds=5), quantum_seconds=1000)

    assert story.until(8.9) == []
    assert story.until(9) == [FOR_B]


def test_a_head_that_may_not_wait_at_all_drains_at_once():
    story = Story("a", preset("b", max_wait_seconds=0), models_max=1)
    story.busy(1, "a")

    assert story.ask(2, "b") == [FOR_B]


def test_waiters_before_the_head_are_served_on_for_max_wait():
    story = Story("a", "b", models_max=1, quantum_seconds=10)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")

    assert story.until(34.9) == []
    assert story.until(35) == [FOR_B]


def test_once_those_before_the_head_are_served_the_quantum_counts():
    story = Story("a", "b", models_max=1, quantum_seconds=10)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")
    assert story.until(20) == []

    answer = story.release(1)

    assert granted(answer) == [2]
    # Five seconds as the head were b's before those before it, so the quantum is over.
    assert FOR_B in answer + story.wait(0.5)


def test_waiters_behind_the_head_do_not_put_its_drain_off():
    story = crowded(quantum_seconds=10)
    story.ask(3, "a")

    assert story.until(14) == [FOR_B]


@pytest.mark.parametrize("whose", ["all", "its own"])
def test_no_model_makes_way_before_its_residency_is_over(whose):
    own = {"min_residency_seconds": 20}
    a = preset("a", **(own if whose == "its own" else {}))
    story = crowded(a, "b", quantum_seconds=5, **(own if whose == "all" else {}))

    assert story.until(22.9) == []
    assert story.until(23) == [FOR_B]


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_no_residency_lasts_longer_than_the_heads_max_wait(state):
    story = Story("a", "b", models_max=1, min_residency_seconds=500, max_wait_seconds=20)
    getattr(story, state)(1, "a")
    story.ask(2, "b")
    begins = story.now

    [(when, decision)] = story.through(begins + 25)

    assert (when, decision.reason) == (begins + 20, Reason.EVICTED)


def test_residency_protects_an_idle_model_too():
    story = Story("a", "b", models_max=1, min_residency_seconds=20)
    story.idle(1, "a")
    assert story.ask(2, "b") == []
    assert story.timer == 23

    assert story.until(22.9) == []
    assert story.until(23) == [AskExit(1, Reason.EVICTED, "b")]


def test_a_load_that_nobody_wanted_any_more_has_no_residency():
    story = Story("a", "b", models_max=1, min_residency_seconds=20)
    story.ask(1, "a")
    story.cancel(1)
    story.ready("a")

    assert story.ask(2, "b") == [AskExit(1, Reason.EVICTED, "b")]


@pytest.mark.parametrize(
    ("serves", "head", "quantum"),
    [([1.0], 3.0, 10), ([3.0], 1.0, 30), ([1.0, 3.0], 4.0, 15), ([2.0], 2.0, 30)],
)
def test_the_quantum_is_shorter_for_a_head_of_more_weight(serves, head, quantum):
    story = Story(preset("a", parallel=len(serves)), "b", models_max=1, max_wait_seconds=500)
    for request, weight in enumerate(serves):
        story.busy(request, "a", tenant=f"t{request}", weight=weight)
    story.ask(10, "b", tenant="other", weight=head)
    begins = story.now

    assert story.through(begins + 60) == [(begins + quantum, FOR_B)]


def test_a_timer_is_set_for_each_time_at_which_a_drain_is_due():
    story = crowded(quantum_seconds=10, min_residency_seconds=25.5)

    assert story.through(40) == [(28.5, FOR_B)]


# Which one ------------------------------------------------------------------------------


def test_the_soonest_free_drains():
    """a's answers take 10 s and b's 100 s; b has been answering for longer."""
    story = Story("a", "b", "c", models_max=2, max_wait_seconds=0)
    story.busy(1, "b")
    story.release(1, tokens=1000, after=100)
    story.busy(2, "a")
    story.release(2, tokens=100, after=10)
    story.ask(3, "b")
    story.ask(4, "a")

    assert story.ask(5, "c") == [Drain(story.of("a").id, Reason.EVICTED, "c")]


def test_one_drain_is_enough_for_one_start():
    story = Story("a", "b", "c", models_max=2)
    story.busy(1, "a")
    story.busy(2, "b")
    story.ask(3, "c")

    assert len(story.through(200)) == 1


def test_whose_time_has_come_drains_though_another_will_be_free_sooner():
    stays = preset("b", min_residency_seconds=500)
    story = Story("a", stays, "c", models_max=2, quantum_seconds=5)
    for request in range(2, 5):
        story.busy(request, "b")
        story.release(request, tokens=10, after=1)
    story.busy(1, "a")
    story.busy(6, "b")
    story.ask(7, "c")

    assert [drain for _, drain in story.through(100)] == [
        Drain(story.of("a").id, Reason.EVICTED, "c")
    ]


def test_an_idle_one_goes_before_a_busy_one_drains():
    story = Story("a", "b", "c", models_max=2, max_wait_seconds=0)
    story.busy(1, "a")
    story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]
    assert not [d for _, d in story.through(story.now + 9) if isinstance(d, Drain)]


def test_a_pinned_one_never_drains_for_another():
    story = Story(preset("a", pinned=True), "b", "c", models_max=2)
    story.busy(1, "a")
    story.busy(2, "b")
    story.ask(3, "c")

    assert [d for _, d in story.through(100)] == [Drain(2, Reason.EVICTED, "c")]


def test_a_start_up_load_drains_nobody():
    story = Story("a", "b", models_max=1, max_wait_seconds=0)
    story.busy(1, "a")

    assert codes(story.ask(2, "b", Kind.STARTUP)) == {2: "does_not_fit"}


def test_nobody_drains_for_a_preset_whose_last_load_failed():
    story = Story("a", "b", models_max=1)
    story.ask(1, "b")
    story.exit(1, Exit(code=1))
    story.busy(2, "a")
    story.wait(100)
    told = story.ask(3, "b") + [decision for _, decision in story.through(300)]

    assert not [decision for decision in told if isinstance(decision, Drain)]


# What a drain means ---------------------------------------------------------------------


def drained(*presets, **config) -> Story:
    """a drains for b, the head."""
    story = Story(*(presets or "abc"), models_max=1, quantum_seconds=0, **config)
    story.busy(1, "a")
    assert story.ask(2, "b") == [FOR_B]
    return story


def test_a_draining_instance_takes_no_new_lease():
    story = drained(preset("a", parallel=4), "b")

    assert story.ask(3, "a") == []
    assert story.queue == ["b", "a"]


def test_traffic_never_undoes_a_drain():
    story = drained(preset("a", parallel=4), "b")

    for request in range(3, 40):
        assert story.ask(request, "a", after=5) == []


def test_the_answers_of_a_draining_instance_are_not_cut():
    story = drained()

    assert story.through(3600) == []
    assert story.leases("a") == {1}


def test_with_its_last_answer_it_is_asked_to_exit_and_the_head_starts_when_it_has():
    story = drained(preset("a", parallel=4), "b")
    story.ask(3, "a")

    assert story.release(1) == [AskExit(1, Reason.EVICTED, "b")]
    assert started(story.exit(1)) == ["b"]
    assert granted(story.ready("b")) == [2]


def test_an_answer_that_nobody_reads_ends_the_drain():
    story = drained()

    assert story.abandon(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_the_queue_wait_limit_stands_still_while_an_instance_drains():
    story = drained(queue_wait_seconds=40)

    assert story.through(500) == []


def test_a_draining_instance_that_crashes_makes_room_at_once():
    story = drained()

    answer = story.exit(1, Exit(code=1))

    assert Revoke(1, 1) in answer
    assert started(answer) == ["b"]


# What becomes of it ---------------------------------------------------------------------


def test_a_drain_passes_on_to_the_new_head_when_its_entry_has_gone():
    story = drained()
    story.ask(3, "c")
    story.ask(4, "a")

    assert story.cancel(2) == [Drain(1, Reason.EVICTED, "c")]
    assert story.release(1) == [AskExit(1, Reason.EVICTED, "c")]


def test_a_drain_that_nobody_needs_is_undone_before_anybody_is_granted():
    story = drained(preset("a", parallel=2), "b")
    for request in range(3, 8):
        story.ask(request, "a")

    answer = story.cancel(2)

    assert answer[0] == Undrain(1, Reason.NO_LONGER_NEEDED)
    assert granted(answer) == [3]


def test_a_drain_is_undone_when_the_new_head_waits_for_that_very_instance():
    story = drained(preset("a", parallel=2), "b", "c")
    story.ask(3, "a")
    story.ask(4, "c")

    answer = story.cancel(2)

    assert answer[0] == Undrain(1, Reason.NO_LONGER_NEEDED)
    assert granted(answer) == [3]


def test_a_drain_is_undone_when_an_idle_instance_turns_up():
    story = Story("a", "b", "c", models_max=2, max_wait_seconds=0)
    story.busy(1, "a")
    story.busy(2, "b")
    [drain] = story.ask(3, "c")
    busy = {1: 2, 2: 1}[drain.instance]

    answer = story.release(busy)

    assert len(answer) == 2
    assert AskExit(busy, Reason.EVICTED, "c") in answer
    assert Undrain(drain.instance, Reason.NO_LONGER_NEEDED) in answer


def test_a_drain_is_undone_when_the_residency_of_an_idle_instance_ends():
    """By a timer of its own: nothing else may happen then."""
    story = Story("a", "b", "c", models_max=2, quantum_seconds=0, min_residency_seconds=10)
    story.busy(1, "a")
    story.wait(20)
    story.idle(2, "b")
    loaded_at = story.of("b").loaded_at
    assert story.ask(3, "c") == [Drain(1, Reason.EVICTED, "c")]
    assert story.timer == loaded_at + 10

    assert story.until(loaded_at + 9.9) == []
    assert story.until(loaded_at + 10) == [
        Undrain(1, Reason.NO_LONGER_NEEDED),
        AskExit(2, Reason.EVICTED, "c"),
    ]


def test_a_drain_is_undone_when_another_instance_has_died():
    story = Story("a", "b", "c", models_max=2, max_wait_seconds=0)
    story.busy(1, "a")
    story.busy(2, "b")
    [drain] = story.ask(3, "c")

    answer = story.exit({1: 2, 2: 1}[drain.instance])

    assert started(answer) == ["c"]
    assert Undrain(drain.instance, Reason.NO_LONGER_NEEDED) in answer


def test_a_drain_is_undone_when_a_person_makes_room():
    story = Story("a", "b", "c", models_max=2, max_wait_seconds=0)
    story.busy(1, "a")
    story.busy(2, "b")
    [drain] = story.ask(3, "c")
    other = story.planner.instances[{1: 2, 2: 1}[drain.instance]]

    answer = story.tell(UnloadAsked(other.preset.name, force=True))

    assert Undrain(drain.instance, Reason.NO_LONGER_NEEDED) in answer
    assert started(story.exit(other.id)) == ["c"]


def test_a_drain_is_undone_when_its_instance_is_pinned():
    story = drained()

    answer = story.edit(preset("a", pinned=True), "b", "c")

    assert Undrain(1, Reason.NO_LONGER_NEEDED) in answer
    assert codes(answer) == {2: "blocked_by_pinned"}


def test_a_drain_is_not_undone_once_its_instance_was_asked_to_exit():
    story = drained()
    story.release(1)

    assert story.edit(preset("a", pinned=True), "b", "c") == []
    assert story.cancel(2) == []


def test_a_persons_unload_makes_a_drain_final():
    story = drained()
    story.tell(UnloadAsked("a"))

    assert story.cancel(2) == []
    assert story.release(1) == [AskExit(1, Reason.UNLOADED)]


def test_room_that_is_drained_for_an_entry_is_its_own_though_another_comes_ahead():
    story = drained()
    assert story.ask(3, "c", arrived=0.5) == []
    assert story.queue == ["c", "b"]

    story.release(1)
    assert started(story.exit(1)) == ["b"]


# Waiters that overflow an instance (V1) -------------------------------------------------


def test_waiters_protect_an_instance_that_works_for_nobody_for_max_wait_at_most():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")
    assert story.abandon(1) == []

    assert story.through(40) == [(35, AskExit(1, Reason.EVICTED, "b"))]


# The bound ------------------------------------------------------------------------------


@pytest.mark.parametrize("models", [2, 3, 5])
def test_nobody_waits_longer_than_a_max_wait_a_drain_and_a_load_for_each_entry_before(models):
    names = "abcde"[:models]
    stage = Stage(*(preset(name, parallel=2) for name in names), models_max=1)
    for name in names:
        for _ in range(3):
            stage.comes(0.0, Client(name, seconds=7.0))
    stage.run(3600)

    worst = max(asked.waited for asked in stage.asked.values() if asked.granted is not None)

    turn = 30 + 7 + stage.exit_seconds + stage.load_seconds
    # Its two slots are busy when its turn comes round again: one answer more.
    assert worst <= models * turn + 7
    assert all(sum(asked.ended is not None for asked in stage.of(n)) > 20 for n in names)
