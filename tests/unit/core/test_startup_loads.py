"""A10: loads without a request behind them."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Grant, Reason, Start, Wake
from scheduler.core.events import Cancelled, Released
from scheduler.core.values import Exit, Kind

from .story import Story, codes, granted, preset, started


def start_up(story: Story, *names: str):
    return [story.ask(100 + n, name, Kind.STARTUP) for n, name in enumerate(names)]


def test_two_of_three_fit_and_the_third_is_skipped():
    story = Story("a", "b", "c", models_max=2)
    start_up(story, "a", "b", "c")

    assert started(story.ready("a")) == ["b"]
    assert codes(story.ready("b")) == {102: "does_not_fit"}
    assert story.alive == ["a", "b"]


def test_a_start_up_load_says_so():
    story = Story("a")

    (answer,) = start_up(story, "a")

    assert answer == [Start(1, preset("a"), Reason.STARTUP)]


def test_start_up_loads_go_one_by_one_whatever_the_loaders():
    story = Story("a", "b", models_max_loading=2)

    answers = start_up(story, "a", "b")

    assert [started(answer) for answer in answers] == [["a"], []]
    assert started(story.ready("a")) == ["b"]


def test_a_start_up_load_is_not_skipped_while_something_is_stopping():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.edit("b")

    assert start_up(story, "b") == [[]]
    assert started(story.exit(1)) == ["b"]


def test_a_start_up_load_evicts_nobody():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")

    (answer,) = start_up(story, "b")

    assert codes(answer) == {100: "does_not_fit"}
    assert story.alive == ["a"]


def test_a_start_up_load_kills_no_unwanted_load():
    story = Story("a", "b")
    story.ask(1, "a")
    story.tell(Cancelled(1))

    assert start_up(story, "b") == [[]]
    assert started(story.ready("a")) == ["b"]


def test_a_start_up_load_of_a_sleeper_kills_no_unwanted_load_either():
    story = Story("a", "b")
    story.sleeping(1, "b")
    story.ask(2, "a")
    story.tell(Cancelled(2))

    assert start_up(story, "b") == [[]]
    assert story.ready("a") == [Wake(1)]


def test_a_request_for_the_same_preset_lends_it_its_weight():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.edit("a", "b")
    story.ask(2, "b")

    story.ask(3, "b", Kind.STARTUP)

    assert story.release(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_a_load_is_granted_when_the_model_is_loaded_and_holds_no_slot():
    story = Story("a")
    story.ask(1, "a", Kind.LOAD)
    story.ask(2, "a", Kind.STARTUP)

    assert story.ready("a") == [Grant(1, 1), Grant(2, 1)]
    assert story.of("a").idle
    assert granted(story.ask(3, "a")) == [3]


def test_a_load_of_what_is_loaded_and_busy_is_granted_at_once():
    story = Story("a")
    story.busy(1, "a")

    assert granted(story.ask(2, "a", Kind.LOAD)) == [2]


def test_the_end_of_a_load_releases_nothing():
    story = Story("a")
    story.ask(1, "a", Kind.LOAD)
    story.ready("a")
    story.ask(2, "a")

    story.tell(Released(1))

    assert story.leases("a") == {2}


def test_a_persons_load_may_evict():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")

    assert story.ask(2, "b", Kind.LOAD) == [AskExit(1, Reason.EVICTED, "b")]


def test_what_a_person_loaded_is_not_first_in_line_to_go():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b", Kind.LOAD)
    story.ready("b")

    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_what_a_person_asks_for_afterwards_is_not_first_in_line_any_more():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.tell(Cancelled(2))
    story.ready("b")
    assert granted(story.ask(3, "b", Kind.LOAD)) == [3]

    assert story.ask(4, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_a_start_up_load_that_fails_is_told():
    story = Story("a", "b")
    start_up(story, "a", "b")

    answer = story.exit(1, Exit(code=1))

    assert codes(answer) == {100: "model_load_failed"}
    assert started(answer) == ["b"]


def test_a_start_up_load_out_of_memory_is_tried_again_but_evicts_nobody():
    story = Story("a", "b")
    story.idle(1, "b")
    start_up(story, "a")

    assert started(story.exit(2, Exit(out_of_memory=True))) == ["a"]
    assert story.of("b").state == "loaded"


def test_a_try_that_evicted_nobody_leaves_no_debt_for_a_later_start():
    story = Story("a", "b")
    story.idle(1, "b")
    start_up(story, "a")
    story.exit(2, Exit(out_of_memory=True))
    story.ask(3, "a")
    story.ready("a")
    story.ask(4, "a")

    assert started(story.exit(story.of("a").id)) == ["a"]
    assert story.of("b").state == "loaded"


def test_a_start_up_load_is_never_refused_for_having_waited():
    story = Story("a", "b", queue_wait_seconds=10)
    start_up(story, "a", "b")

    assert story.wait(250) == []
    assert started(story.ready("a")) == ["b"]
