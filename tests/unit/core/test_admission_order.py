"""A1, A2, A7: who is served first, and who may load."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Grant, Reason, Wake
from scheduler.core.events import Cancelled
from scheduler.core.values import Kind

from .story import Story, codes, granted, preset, started


def test_a_second_request_for_a_queued_preset_joins_its_entry():
    story = Story("a")

    first, second = story.ask(1, "a"), story.ask(2, "a")

    assert started(first) == ["a"]
    assert second == []
    assert [(e.preset, e.waiters) for e in story.planner.entries(story.now)] == [("a", 2)]


def test_presets_load_in_the_order_of_their_oldest_waiters():
    story = Story("a", "b", "c")
    for request, name in enumerate("abc", start=1):
        story.ask(request, name)

    second, third = story.ready("a"), story.ready("b")

    assert started(second) == ["b"]
    assert started(third) == ["c"]


def test_only_the_oldest_waiter_still_waiting_gives_an_entry_its_place():
    story = Story("a", "b", "c")
    story.ask(1, "a")
    story.ask(2, "b")
    story.ask(3, "c")
    story.ask(4, "b")

    story.tell(Cancelled(2))

    assert story.queue == ["a", "c", "b"]
    assert started(story.ready("a")) == ["c"]


def test_a_retry_keeps_the_place_of_its_first_arrival():
    story = Story("a", "b", "c")
    story.ask(1, "a")
    story.ask(2, "b")
    story.ask(3, "c", arrived=0.5)

    assert started(story.ready("a")) == ["c"]


def test_waiters_of_one_entry_are_served_by_arrival():
    story = Story("a")
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "a", arrived=0.5)

    assert granted(story.release(1)) == [3]
    assert granted(story.release(3)) == [2]


def test_a_load_that_somebody_waits_for_comes_before_a_persons_and_that_before_start_up():
    story = Story("a", "b", "c", "d")
    story.ask(1, "a")
    story.ask(2, "b", Kind.STARTUP)
    story.ask(3, "c", Kind.LOAD)
    story.ask(4, "d")

    assert story.queue == ["a", "d", "c", "b"]
    assert [started(story.ready(name)) for name in "adc"] == [["d"], ["c"], ["b"]]


def test_one_loader_loads_one_model_at_a_time():
    story = Story("a", "b")
    story.ask(1, "a")

    assert started(story.ask(2, "b")) == []


def test_two_loaders_load_two():
    story = Story("a", "b", "c", models_max_loading=2)
    story.ask(1, "a")

    assert started(story.ask(2, "b")) == ["b"]
    assert started(story.ask(3, "c")) == []


def test_a_saturated_preset_does_not_block_those_behind_it():
    story = Story("a", "b")
    story.busy(1, "a")
    story.ask(2, "a")

    assert started(story.ask(3, "b")) == ["b"]


def test_a_saturated_preset_needs_no_slot():
    story = Story("a", "b", models_max=2)
    story.idle(1, "b")
    story.busy(2, "a")

    assert story.ask(3, "a") == []


def test_everybody_who_fits_is_granted_in_the_step_of_ready():
    story = Story(preset("a", parallel=2))
    for request in (1, 2, 3):
        story.ask(request, "a")

    assert story.ready("a") == [Grant(1, 1), Grant(2, 1)]


def test_an_instance_takes_no_more_leases_than_parallel():
    story = Story(preset("a", parallel=2))
    story.busy(1, "a")

    assert granted(story.ask(2, "a")) == [2]
    assert granted(story.ask(3, "a")) == []


def test_an_abandoned_lease_still_counts():
    story = Story("a")
    story.busy(1, "a")
    story.abandon(1)

    assert story.ask(2, "a") == []
    assert granted(story.release(1)) == [2]


def test_a_later_sleeper_wakes_beside_a_head_that_only_waits_for_room():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.sleeping(2, "b")
    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]

    assert story.ask(4, "b") == [Wake(2)]
    # ... and the head does not wait for that loader.
    assert started(story.exit(1)) == ["c"]


def test_a_later_entry_does_not_load_beside_a_head_that_has_no_room_coming():
    story = Story("a", "b", "c", models_max=2)
    story.busy(1, "a")
    story.busy(2, "b")
    story.ask(3, "c")
    story.asleep("b")  # under its lease: no victim, but no longer usable

    assert story.ask(4, "b") == []


def test_room_is_its_entrys_own_though_another_comes_ahead():
    story = Story("a", "b", "c", "d", models_max=2)
    story.idle(1, "a")
    story.busy(2, "b")
    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]
    assert story.ask(4, "d", arrived=0.5) == []
    assert story.queue == ["d", "c"]

    # The head has no victim and waits for room; the room that was made is not its own.
    assert started(story.exit(1)) == ["c"]


def test_who_comes_ahead_gets_room_of_its_own_and_takes_none_that_was_made_for_another():
    story = Story("a", "b", "c", "d", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]
    assert story.ask(4, "d", arrived=0.5) == [AskExit(2, Reason.EVICTED, "d")]

    assert started(story.exit(1)) == ["c"]
    assert started(story.exit(2)) == ["d"]


def test_room_passes_on_when_its_entry_needs_none_any_more():
    story = Story(preset("a", "old"), "b", "c", models_max=2)
    story.busy(1, "a")
    story.idle(2, "b")
    story.edit(preset("a", "new"), "b", "c")
    story.apply("a")
    assert story.ask(3, "a") == [AskExit(2, Reason.EVICTED, "a")]
    story.edit(preset("a", "old"), "b", "c")

    assert story.ask(4, "c") == []
    assert started(story.exit(2)) == ["c"]


def test_room_passes_on_when_its_entry_has_gone():
    story = Story("a", "b", "c", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")
    story.ask(3, "c")

    story.tell(Cancelled(2))

    assert started(story.exit(1)) == ["c"]


def test_a_full_queue_refuses_and_says_when_to_come_back():
    story = Story("a", queue_limit=2)
    story.ask(1, "a")
    story.ask(2, "a")

    answer = story.ask(3, "a")

    assert codes(answer) == {3: "queue_full"}
    assert answer[0].refusal.retry_after_seconds > 0


def test_a_full_queue_does_not_refuse_what_need_not_wait():
    story = Story("a", "b", "c", models_max=2, queue_limit=1)
    story.busy(1, "a")
    story.release(1)
    story.busy(2, "b")
    story.ask(3, "b")

    assert granted(story.ask(4, "a")) == [4]


def test_who_waits_longer_than_the_limit_is_told():
    patience = {"max_wait_seconds": 1000, "quantum_seconds": 1000}
    story = Story("a", "b", models_max=1, queue_wait_seconds=60, **patience)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")
    assert story.timer == story.now - 1 + 60

    assert story.wait(58.5) == []
    assert codes(story.wait(0.5)) == {2: "queue_timeout"}
    assert codes(story.wait(1)) == {3: "queue_timeout"}


def test_the_queue_wait_limit_stands_still_while_the_model_loads():
    story = Story("a", queue_wait_seconds=60)
    story.ask(1, "a")

    assert story.wait(250) == []
    assert granted(story.ready("a")) == [1]


def test_the_queue_wait_limit_stands_still_while_room_is_made():
    story = Story(preset("a", stop_timeout_seconds=500), "b", models_max=1, queue_wait_seconds=60)
    story.idle(1, "a")
    story.ask(2, "b")

    assert story.wait(400) == []


def test_the_queue_wait_limit_counts_on_after_the_load():
    story = Story("a", queue_wait_seconds=60)
    story.ask(1, "a")
    story.ask(2, "a")
    story.wait(250)
    story.ready("a")

    assert story.wait(59) == []
    assert codes(story.wait(1)) == {2: "queue_timeout"}


def test_an_unknown_preset_is_refused():
    assert codes(Story("a").ask(1, "b")) == {1: "model_not_found"}


def test_entries_tell_who_waits_since_when():
    story = Story("a", "b")
    story.ask(1, "a")
    story.ask(2, "b", arrived=0.25)

    assert [(e.preset, e.waiters, e.oldest) for e in story.planner.entries(story.now)] == [
        ("b", 1, 0.25),
        ("a", 1, 2.0),
    ]
