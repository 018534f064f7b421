"""A9: waiters whose clients have lost their connection and may come back (conversations); and the
streams that they come back for (DESIGN §7)."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Drain, Grant, Reason, Undrain
from scheduler.core.explaining import Holdup
from scheduler.core.values import VictimPolicy

from .story import Story, codes, granted, preset, started


def test_a_detached_waiter_is_loaded_for_and_granted_like_any_other():
    story = Story("a")
    story.ask(1, "a")
    story.detach(1)

    assert granted(story.ready("a")) == [1]


def test_a_detached_waiter_evicts_what_is_idle():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)

    assert story.release(1) == [AskExit(1, Reason.EVICTED, "b", figures=_figures(story, 1))]


def _figures(story: Story, waiters: int):
    instance = story.of("a")
    idle, loaded = story.now - instance.last_used, story.now - instance.loaded_at
    return (("idle_for", idle), ("loaded_for", loaded), ("waiters", waiters))


def test_no_busy_instance_drains_for_detached_waiters_only():
    story = Story("a", "b", models_max=1, max_wait_seconds=5.0, detached_wait_seconds=600.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)

    assert not story.through(story.now + 120.0)
    assert story.why(2).holdup is Holdup.DETACHED


def test_one_attached_waiter_beside_them_has_it_drained():
    story = Story("a", "b", models_max=1, max_wait_seconds=5.0, detached_wait_seconds=600.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)
    story.through(story.now + 60.0)
    story.ask(3, "b")

    [(_, drain)] = story.through(story.now + 10.0)
    assert isinstance(drain, Drain)
    assert drain.for_preset == "b"


def test_a_persons_load_beside_them_has_it_drained():
    story = Story("a", "b", models_max=1, max_wait_seconds=5.0, detached_wait_seconds=600.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)
    story.ask(3, "b", "load")

    assert any(isinstance(decision, Drain) for _, decision in story.through(story.now + 40.0))


def test_a_look_beside_them_has_none_drained():
    story = Story("a", "b", models_max=1, max_wait_seconds=5.0, detached_wait_seconds=600.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)
    story.look(3, "b")

    assert not story.through(story.now + 40.0)


def test_who_waits_behind_detached_waiters_is_head_meanwhile():
    story = Story("a", "b", "c", models_max=1, max_wait_seconds=5.0, detached_wait_seconds=600.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.ask(3, "c")
    story.detach(2)

    [(_, drain)] = story.through(story.now + 10.0)
    assert drain.for_preset == "c"
    story.release(1)
    assert started(story.exit(1)) == ["c"]


def test_an_end_of_an_answer_lets_a_detached_entry_load_that_was_skipped():
    story = Story("a", "b", models_max=1, detached_wait_seconds=600.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)
    story.through(story.now + 60.0)
    story.release(1)

    assert started(story.exit(1)) == ["b"]


def test_more_detached_entries_than_are_tried_in_a_step_have_their_turn():
    names = [f"m{number}" for number in range(40)]
    story = Story("a", *names, models_max=1, detached_wait_seconds=6000.0, queue_wait_seconds=9e9)
    story.busy(1, "a")
    for request, name in enumerate(names, 2):
        story.ask(request, name)
        story.detach(request)
    story.release(1)
    served = started(story.exit(1))
    while len(served) < len(names):
        name = served[-1]
        [request] = granted(story.ready(name))
        instance = story.of(name).id
        if not any(isinstance(decision, AskExit) for decision in story.release(request)):
            assert story.through(story.now + 5.0)
        served += started(story.exit(instance))

    assert sorted(served) == sorted(names)


def test_a_drain_begun_for_a_client_that_was_there_goes_on():
    story = Story("a", "b", models_max=1, max_wait_seconds=5.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.through(story.now + 10.0)
    assert story.detach(2) == []
    story.release(1)

    assert started(story.exit(1)) == ["b"]


def test_a_drain_that_is_nobodys_any_more_does_not_pass_to_detached_waiters():
    story = Story("a", "b", "c", models_max=1, max_wait_seconds=5.0, detached_wait_seconds=600.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.through(story.now + 10.0)
    story.ask(3, "c")
    story.detach(3)

    assert story.cancel(2) == [Undrain(1, Reason.NO_LONGER_NEEDED)]


def test_a_detached_waiter_is_refused_when_its_time_is_over():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)
    due = story.now + 60.0
    assert not story.through(due - 0.5)

    assert codes(story.until(due)) == {2: "queue_timeout"}


def test_only_the_detached_leave_early():
    story = Story("a", "b", models_max=1, max_wait_seconds=500.0, quantum_seconds=500.0)
    story.busy(1, "a")
    for request in (2, 3, 4):
        story.ask(request, "b")
    story.detach(4)
    story.detach(3)

    told = [decision for _, decision in story.through(story.now + 100.0)]
    assert sorted(codes(told)) == [3, 4]
    assert story.queue == ["b"]


def test_the_time_of_the_detached_stands_while_their_model_loads():
    story = Story("a")
    story.ask(1, "a")
    story.detach(1)
    assert not [d for _, d in story.through(story.now + 200.0) if not isinstance(d, Grant)]

    assert granted(story.ready("a")) == [1]


def test_who_waits_for_a_shorter_time_still_is_refused_by_that():
    story = Story("a", "b", models_max=1, queue_wait_seconds=30.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2, after=20.0)

    assert codes([d for _, d in story.through(story.now + 11.0)]) == {2: "queue_timeout"}


def test_detached_waiters_keep_their_time_when_their_preset_is_renamed():
    story = Story("a", "b", "c", models_max=1, max_wait_seconds=500.0, quantum_seconds=500.0)
    story.busy(1, "a")
    story.ask(2, "b")
    story.detach(2)
    story.ask(3, "c")
    story.rename("b", "a", "c", to="c")

    told = [decision for _, decision in story.through(story.now + 70.0)]
    assert list(codes(told)) == [2]


@pytest.mark.parametrize("request_", [1, 77])
def test_a_detach_that_comes_too_late_changes_nothing(request_):
    story = Story("a")
    story.busy(1, "a")

    assert story.detach(request_) == []
    assert story.leases("a") == {1}


def test_a_detached_waiter_of_a_sleeper_has_nobody_drained_for_its_wake():
    """8 bytes: a sleeps, b took its place and answers."""
    story = Story(
        preset("a", need=(("gpu", 6),)),
        preset("b", need=(("gpu", 6),)),
        models_max=0,
        max_wait_seconds=5.0,
        detached_wait_seconds=600.0,
    )
    story.devices(gpu=8)
    story.sleeping(1, "a")
    story.busy(2, "b")
    story.ask(3, "a")
    story.detach(3)

    assert not story.through(story.now + 60.0)


# Streams that nobody has read to their end -------------------------------------------------------


def test_what_holds_unread_streams_is_the_last_victim_for_a_slot():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.leave_unread("a")
    story.idle(2, "b")

    [exit] = story.ask(3, "c")
    assert exit.instance == 2


def test_it_goes_all_the_same_where_nobody_else_can():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.leave_unread("a")

    [exit] = story.ask(2, "b")
    assert exit.instance == 1


def test_read_streams_protect_no_more():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.leave_unread("a")
    story.leave_unread("a", unread=False)
    story.idle(2, "b")

    [exit] = story.ask(3, "c")
    assert exit.instance == 1


def test_what_works_for_nobody_goes_before_what_holds_unread_streams():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.leave_unread("a")
    story.busy(2, "b")
    story.abandon(2)

    [exit] = story.ask(3, "c")
    assert exit.instance == 2


@pytest.mark.parametrize("policy", sorted(VictimPolicy))
def test_for_memory_two_others_go_before_one_that_holds_unread_streams(policy):
    sizes = {"a": 8, "b": 4, "c": 4, "d": 8}
    presets = [preset(name, need=(("gpu", size),)) for name, size in sizes.items()]
    story = Story(*presets, models_max=0, victim_policy=policy)
    story.devices(gpu=16)
    story.idle(1, "a")
    story.leave_unread("a")
    story.idle(2, "b")
    story.idle(3, "c")

    assert {exit.instance for exit in story.ask(4, "d")} == {2, 3}
