"""A4: loads that fail, and what is tried again."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Reason, Reject, Start, Wake
from scheduler.core.values import Code, Exit, Kind, Refusal

from .story import Story, codes, granted, preset, refused, started

BROKEN = Exit(code=1, words="invalid magic")
OUT_OF_MEMORY = Exit(code=1, out_of_memory=True, words="cudaMalloc failed")


def fail(story: Story, request: int, name: str = "a", exit: Exit = BROKEN):
    story.ask(request, name)
    return story.exit(story.of(name).id, exit)


def test_a_child_that_dies_while_loading_fails_every_waiter_with_its_last_words():
    story = Story("a")
    story.ask(1, "a")
    story.ask(2, "a", Kind.LOAD)

    answer = story.exit(1, BROKEN)

    refusal = Refusal(Code.MODEL_LOAD_FAILED, exit=BROKEN)
    assert answer == [Reject(1, refusal), Reject(2, refusal)]
    assert story.queue == []


def test_a_preset_that_failed_backs_off_and_says_how_long():
    story = Story("a")
    fail(story, 1)

    answer = story.ask(2, "a", after=0.25)

    assert codes(answer) == {2: "model_backing_off"}
    assert refused(answer)[2].retry_after_seconds == 0.75
    assert refused(answer)[2].exit == BROKEN


def test_nothing_is_evicted_for_a_preset_that_backs_off():
    story = Story("a", "b", models_max=1)
    for request in range(4):
        story.wait(100)
        fail(story, request)
    story.idle(10, "b")

    assert codes(story.ask(11, "a")) == {11: "model_backing_off"}
    assert story.of("b").state == "loaded"


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60)]
)
def test_the_back_off_doubles_up_to_a_minute(failures, seconds):
    story = Story("a")
    for request in range(failures):
        story.wait(100)
        fail(story, request)

    failure = story.planner.failures["a"]

    assert failure.until - failure.failed_at == seconds
    assert failure.exit == BROKEN


def test_after_the_back_off_it_is_tried_again():
    story = Story("a")
    fail(story, 1)

    assert started(story.ask(2, "a")) == ["a"]


def test_nothing_is_evicted_a_second_time_for_a_preset_that_failed_to_load():
    story = Story("a", "b", models_max=1)
    fail(story, 1)
    story.idle(2, "b")
    story.wait(1000)

    answer = story.ask(3, "a")

    assert codes(answer) == {3: "model_broken"}
    assert answer[0].refusal.exit == BROKEN
    assert story.of("b").state == "loaded"


def once_loaded(**config) -> Story:
    """a has loaded before; b holds the only slot."""
    story = Story("a", "b", models_max=1, **config)
    story.idle(1, "a")
    story.exit(1)
    story.idle(2, "b")
    story.wait(100)
    return story


def fail_again(story: Story, request: int):
    """a's next load evicts b, and fails; b is back."""
    [asked] = story.ask(request, "a")
    assert asked.reason is Reason.EVICTED
    story.exit(asked.instance)
    story.exit(story.of("a").id, BROKEN)
    story.idle(request + 1, "b")
    story.wait(100)


def test_what_has_loaded_before_may_evict_until_it_has_failed_three_times_in_a_row():
    story = once_loaded()
    for request in (10, 20, 30):
        fail_again(story, request)

    assert codes(story.ask(40, "a")) == {40: "model_broken"}


def test_how_often_what_has_loaded_before_may_fail_is_configured():
    story = once_loaded(broken_after=1)
    fail_again(story, 10)

    assert codes(story.ask(40, "a")) == {40: "model_broken"}


def test_what_has_loaded_with_other_options_has_not_loaded_with_these():
    story = once_loaded()
    story.edit(preset("a", "other"), "b")
    fail_again(story, 10)

    assert codes(story.ask(40, "a")) == {40: "model_broken"}


def test_a_preset_that_failed_to_load_is_tried_again_where_there_is_room():
    story = Story("a", "b", models_max=2)
    fail(story, 1)
    story.idle(2, "b")

    assert started(story.ask(3, "a", after=100)) == ["a"]


def test_a_person_may_evict_for_a_preset_that_failed_to_load():
    story = Story("a", "b", models_max=1)
    fail(story, 1)
    story.idle(2, "b")

    assert story.ask(3, "a", Kind.LOAD, after=100) == [AskExit(2, Reason.EVICTED, "a")]


def test_a_persons_load_clears_the_back_off():
    story = Story("a")
    for request in range(3):
        story.wait(100)
        fail(story, request)

    assert started(story.ask(10, "a", Kind.LOAD)) == ["a"]
    assert story.planner.failures == {}


def test_a_persons_load_that_was_not_let_in_clears_nothing():
    story = Story("a", "b", queue_limit=1)
    fail(story, 1)
    story.wait(10)
    fail(story, 2)
    story.ask(3, "b", after=0.1)

    assert codes(story.ask(4, "a", Kind.LOAD, after=0.1)) == {4: "queue_full"}
    assert story.planner.failures["a"].in_a_row == 2


def test_a_load_that_succeeds_ends_the_row_of_failures():
    story = Story("a")
    fail(story, 1)
    story.wait(10)
    story.idle(2, "a")
    assert story.planner.failures == {}

    story.exit(2)
    fail(story, 3)

    assert story.planner.failures["a"].in_a_row == 1


def test_other_options_are_another_chance():
    story = Story("a")
    fail(story, 1)

    story.edit(preset("a", "other"))

    assert started(story.ask(2, "a", after=0.1)) == ["a"]


def test_a_failed_load_lets_the_next_in_line_load():
    story = Story("a", "b", models_max=1)
    story.ask(1, "a")
    story.ask(2, "b")

    assert started(story.exit(1, BROKEN)) == ["b"]


def test_a_crash_of_a_loaded_instance_is_no_failed_load():
    story = Story("a")
    story.busy(1, "a")
    story.ask(2, "a")

    answer = story.exit(1, BROKEN)

    assert codes(answer) == {}
    assert started(answer) == ["a"]
    assert granted(story.ready("a")) == [2]
    assert story.planner.failures == {}


def test_a_load_that_we_killed_has_not_failed():
    story = Story(preset("a", "old"), models_max=1)
    story.ask(1, "a")
    story.edit(preset("a", "new"))

    answer = story.exit(1, Exit(signal=9))

    assert codes(answer) == {}
    assert started(answer) == ["a"]


def test_a_load_out_of_memory_keeps_its_place_and_is_tried_three_times():
    story = Story("a")
    story.ask(1, "a")

    assert started(story.exit(1, OUT_OF_MEMORY)) == ["a"]
    assert started(story.exit(2, OUT_OF_MEMORY)) == ["a"]
    answer = story.exit(3, OUT_OF_MEMORY)

    assert codes(answer) == {1: "out_of_memory"}
    assert refused(answer)[1].exit == OUT_OF_MEMORY
    assert refused(answer)[1].retry_after_seconds == 1
    assert codes(story.ask(2, "a", after=0.5)) == {2: "model_backing_off"}


def test_one_more_idle_victim_goes_before_each_try():
    story = Story("a", "b", "c", models_max=4)
    story.idle(1, "b")
    story.idle(2, "c")
    story.ask(3, "a")

    assert story.exit(3, OUT_OF_MEMORY) == [AskExit(1, Reason.EVICTED, "a")]
    assert started(story.exit(1)) == ["a"]
    assert story.exit(4, OUT_OF_MEMORY) == [AskExit(2, Reason.EVICTED, "a")]
    assert started(story.exit(2)) == ["a"]
    assert granted(story.ready("a")) == [3]


def test_a_try_waits_for_its_victim_though_a_slot_is_free():
    story = Story("a", "b", models_max=0)
    story.idle(1, "b")
    story.ask(2, "a")
    story.exit(2, OUT_OF_MEMORY)

    assert story.wait(5) == []
    assert started(story.exit(1)) == ["a"]


def test_no_sleeper_wakes_into_the_memory_that_is_freed_for_a_try():
    story = Story("a", "b", "c")
    story.sleeping(1, "b")
    story.sleeping(2, "c")
    story.ask(3, "a")
    story.ask(4, "c")

    assert story.exit(3, OUT_OF_MEMORY) == [AskExit(1, Reason.EVICTED, "a")]
    assert started(story.exit(1)) == ["a"]
    assert story.ready("a")[1:] == [Wake(2)]


def test_nobody_goes_for_a_try_of_what_has_failed_by_itself_before():
    story = Story("a", "b", "c")
    story.idle(1, "b")
    fail(story, 2)
    story.wait(10)
    story.ask(3, "a")

    assert started(story.exit(story.of("a").id, OUT_OF_MEMORY)) == ["a"]
    assert story.of("b").state == "loaded"


def test_a_busy_instance_is_no_victim_of_a_load_out_of_memory():
    story = Story("a", "b")
    story.busy(1, "b")
    story.ask(2, "a")

    assert started(story.exit(2, OUT_OF_MEMORY)) == ["a"]
    assert story.of("b").state == "loaded"


def test_who_comes_while_a_load_is_tried_again_waits_with_the_others():
    story = Story("a")
    story.ask(1, "a")
    story.exit(1, OUT_OF_MEMORY)
    story.ask(2, "a")
    story.exit(2, OUT_OF_MEMORY)

    assert codes(story.exit(3, OUT_OF_MEMORY)) == {1: "out_of_memory", 2: "out_of_memory"}


def test_a_success_between_starts_the_count_of_tries_anew():
    story = Story("a")
    story.ask(1, "a")
    story.exit(1, OUT_OF_MEMORY)
    story.exit(2, OUT_OF_MEMORY)
    story.ready("a")
    story.exit(3)
    story.ask(2, "a")

    assert started(story.exit(4, OUT_OF_MEMORY)) == ["a"]


def test_loads_out_of_memory_that_nobody_waits_for_are_not_tried_again():
    story = Story("a")
    story.ask(1, "a")
    story.release(1)

    assert story.exit(1, OUT_OF_MEMORY) == []


def test_the_number_of_tries_is_configured():
    story = Story("a", out_of_memory_loads=1)
    story.ask(1, "a")

    assert codes(story.exit(1, OUT_OF_MEMORY)) == {1: "out_of_memory"}


def test_a_wake_that_dies_is_a_crash_and_its_waiters_get_a_new_start():
    story = Story("a")
    story.sleeping(1, "a")
    story.ask(2, "a")

    answer = story.exit(1, BROKEN)

    assert [type(d) for d in answer] == [Start]
    assert granted(story.ready("a")) == [2]


def test_a_wake_out_of_memory_counts_as_a_load():
    story = Story("a", "b")
    story.sleeping(1, "a")
    story.idle(2, "b")
    story.ask(3, "a")

    assert story.exit(1, OUT_OF_MEMORY) == [AskExit(2, Reason.EVICTED, "a")]
