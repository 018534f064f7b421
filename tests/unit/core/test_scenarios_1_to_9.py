"""The first half of the scenarios that the rules were walked through, in virtual time.

What a scenario asks of real processes stands in tests/process and tests/e2e (what scenario 6 asks
of a conversation in tests/e2e/test_conversations_survive.py), what it asks of memory in
test_scenarios_with_memory.py.
"""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Kill, Reason, Undrain, Wake
from scheduler.core.values import Exit, Priority

from .stage import Client, Stage
from .story import Story, codes, granted, preset, refused, started

MEMORY = Exit(code=1, out_of_memory=True, words="cudaMalloc failed")


# 1: a model that is never idle ----------------------------------------------------------


def never_idle(**config) -> Stage:
    """Three clients keep a busy for ever; b's first waiter comes at 40 and c's at 41."""
    stage = Stage(preset("a", parallel=3), "b", "c", models_max=1, **config)
    for n in range(3):
        stage.comes(n * 1.3, Client("a", seconds=4.0))
    stage.comes(40.0, Client("b", seconds=3.0, again=False))
    stage.comes(41.0, Client("c", seconds=3.0, again=False))
    stage.run(600)
    return stage


def test_scenario_1_a_model_that_is_never_idle_makes_way_after_max_wait_at_most():
    stage = never_idle(quantum_seconds=1e9)

    drains = [(now, d) for now, d in stage.when(Drain) if d.reason is Reason.EVICTED]

    assert drains[0] == (70.0, Drain(1, Reason.EVICTED, "b"))


def test_scenario_1_it_makes_way_when_its_quantum_is_over_though_max_wait_is_not():
    stage = never_idle(quantum_seconds=20)

    assert stage.when(Drain)[0] == (60.0, Drain(1, Reason.EVICTED, "b"))


def test_scenario_1_b_is_served_then_c_and_a_goes_on_behind_them():
    stage = never_idle()
    [b], [c] = stage.of("b"), stage.of("c")
    swap = 4 + stage.exit_seconds + stage.load_seconds

    assert b.waited <= 30 + swap
    assert b.granted < c.granted <= b.granted + 30 + swap
    drained_at = stage.when(Drain)[0][0]
    behind = [asked for asked in stage.of("a") if drained_at <= asked.arrived < c.granted]
    assert len(behind) == 3
    assert all(asked.granted > c.granted for asked in behind)
    assert len([asked for asked in stage.of("a") if asked.ended]) > 300


def test_scenario_1_a_low_class_is_not_starved_by_a_stream_of_a_high_one():
    stage = Stage("a", max_priority_jump_seconds=60)
    for _ in range(3):
        stage.comes(0.0, Client("a", seconds=4.0, priority=Priority.HIGH))
    stage.comes(10.0, Client("a", seconds=4.0, priority=Priority.LOW, again=False))
    stage.run(300)

    [low] = [asked for asked in stage.of("a") if asked.client.priority is Priority.LOW]

    # Those who come a whole jump later are behind it; at most three of the stream are before.
    assert 20 < low.waited <= 60 + 3 * 4


# 2: sleepers ----------------------------------------------------------------------------


def test_scenario_2_one_sleeper_makes_way_and_the_other_wakes_in_its_own_slot():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "b")
    story.sleeping(2, "a")
    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]
    assert started(story.exit(1)) == ["c"]

    assert story.ask(4, "a") == []

    assert story.ready("c")[1:] == [Wake(2)]
    assert granted(story.ready("a")) == [4]
    assert story.alive == ["a", "c"]


def test_scenario_2_nobody_is_stopped_for_a_start_that_is_claimed():
    """The other way round: a itself made way, and its next start waits for c's loader."""
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.sleeping(2, "b")
    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]
    story.exit(1)

    assert story.ask(4, "a") == []
    assert story.of("b").state == "sleeping"


# 3: memory ------------------------------------------------------------------------------


def gpu(name: str, size: int):
    return preset(name, need=(("gpu", size),))


def test_scenario_3_the_one_that_suffices_goes_alone_and_the_small_one_need_not_wait():
    """What c is granted then stands in test_scenarios_with_memory.py."""
    story = Story(gpu("a", 14), gpu("b", 8), gpu("c", 12), gpu("d", 2), models_max=8)
    story.devices(gpu=24)
    story.busy(1, "b")
    story.idle(2, "a")
    a = story.of("a").id

    assert story.ask(3, "c") == [AskExit(a, Reason.EVICTED, "c")]
    assert started(story.ask(4, "d")) == ["d"]
    assert started(story.exit(a)) == ["c"]
    assert story.leases("b") == {1}


def test_scenario_3_the_small_one_waits_for_nothing_but_the_loader():
    story = Story(gpu("a", 14), gpu("b", 8), gpu("c", 12), gpu("d", 2), models_max=8)
    story.devices(gpu=24)
    story.busy(1, "b")
    story.idle(2, "a")
    story.ask(3, "c")
    story.exit(story.of("a").id)

    assert story.ask(4, "d") == []
    assert started(story.ready("c")) == ["d"]


# 4: a drain whose waiter leaves ---------------------------------------------------------


def draining_for_b() -> Story:
    story = Story("a", "b", "c", models_max=1, max_wait_seconds=0)
    story.busy(1, "a")
    assert story.ask(2, "b") == [Drain(1, Reason.EVICTED, "b")]
    return story


def test_scenario_4_a_drain_whose_entry_has_gone_is_undone_before_any_grant():
    story = draining_for_b()
    for request in range(3, 8):
        story.ask(request, "a")

    assert story.cancel(2) == [Undrain(1, Reason.NO_LONGER_NEEDED)]
    assert granted(story.release(1)) == [3]


def test_scenario_4_a_drain_whose_entry_has_gone_passes_to_the_new_head_that_needs_it():
    story = draining_for_b()
    story.ask(3, "c")
    for request in range(4, 9):
        story.ask(request, "a")

    assert story.cancel(2) == [Drain(1, Reason.EVICTED, "c")]
    assert story.release(1) == [AskExit(1, Reason.EVICTED, "c")]
    assert started(story.exit(1)) == ["c"]


# 5: a load that nobody wants any more ---------------------------------------------------


def test_scenario_5_a_load_whose_waiters_left_is_killed_for_who_needs_its_room():
    story = Story("b", "d", models_max=1)
    story.ask(1, "b")
    story.ask(2, "d")

    assert story.cancel(1) == [Kill(1, Reason.UNWANTED, "d")]
    assert started(story.exit(1)) == ["d"]


def test_scenario_5_without_anybody_who_needs_it_the_load_is_finished_and_first_to_go():
    story = Story("a", "b", "d", models_max=2)
    story.idle(1, "a")
    story.ask(2, "b")
    assert story.cancel(2) == []
    story.ready("b")

    assert story.ask(3, "d") == [AskExit(story.of("b").id, Reason.EVICTED, "d")]


# 6: the scheduler is killed -------------------------------------------------------------


def test_scenario_6_who_is_asked_for_again_after_a_restart_keeps_the_place_of_its_first_arrival():
    """The planner's share: it begins with nothing. Children and streams are the shell's."""
    story = Story("a", "b", "c", models_max=1)
    story.until(100)
    for request, (name, age) in enumerate([("b", 10), ("c", 50), ("a", 80), ("b", 20)], start=1):
        story.ask(request, name, arrived=story.now - age, after=0)

    # The first to be told found nobody before it; the others stand by their first arrival.
    assert story.alive == ["b"]
    assert story.queue == ["a", "c", "b"]
    assert granted(story.ready("b")) == [4]


# 7: a preset is edited ------------------------------------------------------------------


def test_scenario_7_a_preset_is_edited_edited_back_edited_again_and_deleted():
    """Until the ledger's issue a stale instance serves on and goes when it is idle: its successor
    is not started beside it."""
    old, new = preset("a", "old", parallel=2), preset("a", "new", parallel=2)
    story = Story(old, "b", models_max=1)
    story.busy(1, "a")
    story.busy(2, "a")
    for request in (3, 4, 5, 6):
        story.ask(request, "a")

    assert story.edit(new, "b") == []
    assert story.of("a").stale
    assert story.edit(old, "b") == []
    assert not story.of("a").stale
    assert story.edit(new, "b") == []
    assert granted(story.release(1)) == [3]
    answer = story.edit("b")
    assert codes(answer) == dict.fromkeys((4, 5, 6), "model_removed")
    assert answer[-1] == Drain(1, Reason.REMOVED)
    assert story.leases("a") == {2, 3}


def test_scenario_7_who_waits_for_an_applied_edit_keeps_its_place():
    old, new = preset("a", "old"), preset("a", "new")
    story = Story(old, "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")
    story.edit(new, "b")
    assert story.apply("a") == [Drain(1, Reason.REPLACED)]
    story.release(1)

    assert started(story.exit(1)) == ["a"]
    assert story.of("a").preset == new
    assert granted(story.ready("a")) == [2]


# 8: the need of a model is not known ----------------------------------------------------


def test_scenario_8_the_idle_make_way_on_the_device_that_is_missing_and_only_there():
    """Measuring and the choice between devices stand in test_scenarios_with_memory.py; here the
    need is given."""
    on_host = preset("h", need=(("host", 30),))
    story = Story(on_host, gpu("g", 20), gpu("a", 12), models_max=8)
    story.devices(gpu=24, host=64)
    story.idle(1, "h")
    story.idle(2, "g")

    assert story.ask(3, "a") == [AskExit(story.of("g").id, Reason.EVICTED, "a")]
    assert started(story.exit(story.of("g").id)) == ["a"]
    assert story.of("h").state == "loaded"


# 9: out of memory, three times ----------------------------------------------------------


def test_scenario_9_a_load_that_runs_out_of_memory_is_tried_three_times_and_others_go_on():
    """Smaller grants and what others use stand in test_scenarios_with_memory.py."""
    story = Story("a", "b", models_max=2)
    story.busy(1, "b")
    story.ask(2, "a")
    for _ in range(2):
        assert started(story.exit(story.of("a").id, MEMORY)) == ["a"]
        assert story.queue == ["a"]
    assert granted(story.release(1) + story.ask(3, "b")) == [3]
    # It would evict b before the third try, were b idle.
    answer = story.exit(story.of("a").id, MEMORY)

    assert codes(answer) == {2: "out_of_memory"}
    assert refused(answer)[2].retry_after_seconds > 0
    assert codes(story.ask(4, "a", after=0.1)) == {4: "model_backing_off"}
    assert granted(story.release(3) + story.ask(5, "b")) == [5]
