"""Presets that change or go while their instances run."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Drain, Kill, Reason, Undrain
from scheduler.core.events import LoadingReported, UnloadAsked

from .story import Story, codes, granted, preset, started

OLD, NEW = preset("a", "old"), preset("a", "new")


def test_an_idle_stale_instance_goes_at_once():
    story = Story(OLD)
    story.idle(1, "a")

    assert story.edit(NEW) == [AskExit(1, Reason.REPLACED)]


def test_a_busy_stale_instance_serves_on():
    story = Story(preset("a", "old", parallel=2))
    story.busy(1, "a")

    assert story.edit(preset("a", "new", parallel=2)) == []
    assert story.of("a").stale
    assert granted(story.ask(2, "a")) == [2]
    assert story.release(1) == []


def test_a_stale_instance_goes_once_nobody_reads_from_it_and_who_waits_gets_the_new_one():
    story = Story(OLD, models_max=1)
    story.busy(1, "a")
    story.edit(NEW)
    story.ask(2, "a")

    assert story.release(1) == [AskExit(1, Reason.REPLACED)]
    assert started(story.exit(1)) == ["a"]
    assert story.of("a").preset == NEW
    assert granted(story.ready("a")) == [2]


def test_a_stale_instance_goes_when_it_works_for_nobody():
    story = Story(preset("a", "old", parallel=2))
    story.busy(1, "a")
    story.edit(preset("a", "new", parallel=2))

    assert story.abandon(1) == [AskExit(1, Reason.REPLACED)]


def test_applied_a_busy_stale_instance_drains_and_new_requests_wait_for_the_new_one():
    story = Story(OLD)
    story.busy(1, "a")
    story.edit(NEW)

    assert story.apply("a") == [Drain(1, Reason.REPLACED)]
    assert story.apply("a") == []
    assert started(story.ask(2, "a")) == ["a"]
    assert story.of("a").preset == NEW
    assert granted(story.ready("a")) == [2]
    assert story.release(1) == [AskExit(1, Reason.REPLACED)]


def test_what_is_not_stale_has_nothing_to_apply():
    story = Story(OLD)
    story.busy(1, "a")

    assert story.apply("a") == []
    assert story.apply("nobody") == []


def test_a_stale_instance_drains_pinned_or_not():
    story = Story(preset("a", "old", pinned=True))
    story.busy(1, "a")
    story.edit(preset("a", "new", pinned=True))

    assert story.apply("a") == [Drain(1, Reason.REPLACED)]


def test_a_stale_sleeper_goes_and_its_waiters_get_a_new_start():
    story = Story(OLD, "b", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")

    assert story.edit(NEW, "b") == [AskExit(1, Reason.REPLACED)]
    assert started(story.ready("b")) == []
    assert started(story.exit(1)) == ["a"]


def test_a_stale_load_is_killed_and_its_waiters_keep_their_place():
    story = Story(OLD, "b", models_max=1)
    story.ask(1, "a")
    story.ask(2, "b")

    assert story.edit(NEW, "b") == [Kill(1, Reason.REPLACED)]
    assert story.queue == ["a", "b"]
    assert started(story.exit(1)) == ["a"]


def test_options_equal_again_undo_the_drain():
    story = Story(OLD)
    story.busy(1, "a")
    story.edit(NEW)
    story.apply("a")

    assert story.edit(OLD) == [Undrain(1, Reason.NO_LONGER_NEEDED)]
    assert not story.of("a").stale
    story.release(1)
    assert granted(story.ask(2, "a")) == [2]


def test_an_undone_drain_serves_who_waited_meanwhile():
    story = Story(OLD, "b", models_max=1)
    story.busy(1, "a")
    story.edit(NEW, "b")
    story.ask(2, "a")
    assert story.release(1) == [AskExit(1, Reason.REPLACED)]

    # Too late: it was asked. The waiter gets a new instance.
    assert story.edit(OLD, "b") == []
    assert started(story.exit(1)) == ["a"]


def test_an_edit_back_kills_the_load_that_replaced_it():
    story = Story(OLD)
    story.busy(1, "a")
    story.edit(NEW)
    story.apply("a")
    story.ask(2, "a")

    answer = story.edit(OLD)

    assert answer == [Kill(2, Reason.REPLACED), Undrain(1, Reason.NO_LONGER_NEEDED)]
    assert granted(story.release(1)) == [2]


@pytest.mark.parametrize("woken", [False, True])
def test_a_child_that_fell_asleep_while_it_drained_is_asleep_when_that_is_undone(woken):
    story = Story(OLD)
    story.busy(1, "a")
    story.edit(NEW)
    story.apply("a")
    story.asleep("a")
    if woken:
        story.tell(LoadingReported(1))

    story.edit(OLD)

    assert story.of("a").state == ("loading" if woken else "sleeping")


def test_a_deleted_preset_tells_its_waiters_and_drains_its_instances():
    """Two leases and four waiters: edited, edited back, edited again, deleted."""
    story = Story(preset("a", "old", parallel=2), "b", models_max=1)
    story.busy(1, "a")
    story.busy(2, "a")
    for request in (3, 4, 5, 6):
        story.ask(request, "a")

    assert story.edit(preset("a", "new", parallel=2), "b") == []
    assert story.apply("a") == [Drain(1, Reason.REPLACED)]
    assert story.edit(preset("a", "old", parallel=2), "b") == [Undrain(1, Reason.NO_LONGER_NEEDED)]
    assert story.edit(preset("a", "newer", parallel=2), "b") == []
    answer = story.edit("b")
    assert codes(answer) == dict.fromkeys((3, 4, 5, 6), "model_removed")
    assert answer[-1] == Drain(1, Reason.REMOVED)
    assert story.release(1) == []
    assert story.release(2)[0].instance == 1
    assert codes(story.ask(7, "a")) == {7: "model_not_found"}


def test_a_deleted_preset_lets_its_answers_end():
    story = Story("a", "b")
    story.busy(1, "a")

    assert story.edit("b") == [Drain(1, Reason.REMOVED)]
    assert story.release(1) == [AskExit(1, Reason.REMOVED)]


def test_a_preset_that_is_added_again_keeps_its_instance():
    story = Story("a", "b")
    story.busy(1, "a")
    story.edit("b")

    assert story.edit("a", "b") == [Undrain(1, Reason.NO_LONGER_NEEDED)]
    assert granted(story.ask(2, "a")) == []
    assert granted(story.release(1)) == [2]


def test_a_deleted_presets_load_is_killed():
    story = Story("a", "b")
    story.ask(1, "a")

    answer = story.edit("b")

    assert codes(answer) == {1: "model_removed"}
    assert answer[1:] == [Kill(1, Reason.REMOVED)]


def test_pins_and_time_outs_follow_an_edit_without_a_restart():
    story = Story("a")
    story.idle(1, "a")

    story.edit(preset("a", pinned=True, stop_timeout_seconds=3.0))

    assert story.of("a").state == "loaded"
    assert story.of("a").preset.pinned


def test_what_an_edit_says_of_its_life_holds_for_a_stale_instance_too():
    story = Story(OLD)
    story.busy(1, "a")

    story.edit(preset("a", "new", stop_timeout_seconds=3.0, pinned=True))

    running = story.of("a").preset
    assert (running.fingerprint, running.pinned, running.stop_timeout_seconds) == ("old", True, 3.0)
    assert story.release(1) == [AskExit(1, Reason.REPLACED)]
    assert story.wait(3) == [Kill(1, Reason.STOP_TIMEOUT)]


@pytest.mark.parametrize("how", ["unload", "apply", "remove"])
def test_what_works_for_nobody_is_asked_at_once_and_killed_in_time(how):
    """A child that hangs never ends an abandoned lease, and its drain would last for an hour."""
    story = Story(preset("a", "old", parallel=2))
    story.busy(1, "a")
    story.abandon(1)
    if how == "unload":
        answer = story.tell(UnloadAsked("a"))
    elif how == "apply":
        answer = story.edit(preset("a", "new", parallel=2)) + story.apply("a")
    else:
        answer = story.edit()

    [asked] = answer
    assert isinstance(asked, AskExit)
    assert story.wait(10) == [Kill(1, Reason.STOP_TIMEOUT)]


def test_a_drain_ends_with_its_last_reader():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")
    story.busy(2, "a")
    story.tell(UnloadAsked("a"))

    assert story.abandon(1) == []
    assert story.abandon(2) == [AskExit(1, Reason.UNLOADED)]


def drains_for_another() -> Story:
    story = Story(preset("a", "old", parallel=2), "b", models_max=1, quantum_seconds=0)
    story.busy(1, "a")
    assert story.ask(2, "b") == [Drain(1, Reason.EVICTED, "b")]
    return story


def test_an_applied_edit_is_not_lost_with_the_drain_for_another():
    story = drains_for_another()
    story.edit(preset("a", "new", parallel=2), "b")
    story.apply("a")
    story.cancel(2)

    assert granted(story.ask(3, "a")) == []
    assert story.release(1)[0].reason is Reason.REPLACED


def test_a_deletion_is_not_lost_with_the_drain_for_another():
    story = drains_for_another()
    story.edit("b")
    story.cancel(2)

    assert story.of("a").state == "draining"
    assert story.release(1) == [AskExit(1, Reason.REMOVED)]
