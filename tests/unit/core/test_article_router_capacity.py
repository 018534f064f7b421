"""The article on llama.cpp's router: its capacity example, with its numbers."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason

from .story import Story


def test_the_idle_one_makes_way_and_the_busy_one_does_not():
    """models-max 2; A is loaded, answers one request and was used last; B is loaded, idle and was
    used before; one waits for C. n_free = 2 - 2 + 0 - 0 = 0 < 1."""
    story = Story("A", "B", "C", models_max=2)
    b = story.idle(1, "B")
    a = story.busy(2, "A")

    assert story.ask(3, "C") == [AskExit(b, Reason.EVICTED, "C")]
    story.exit(b)  # n_free = 2 - 1 + 0 - 0 = 1
    assert story.alive == ["A", "C"]
    assert story.of("A").id == a


def test_were_the_other_one_idle_too_the_less_recent_went():
    story = Story("A", "B", "C", models_max=2)
    a = story.idle(1, "A")
    story.idle(2, "B")

    assert story.ask(3, "C") == [AskExit(a, Reason.EVICTED, "C")]


def test_one_that_stops_already_counts_as_a_free_slot():
    """n_free = 2 - 2 + 1 - 0 = 1: no second one goes for the same waiter, nor for his fellows."""
    story = Story("A", "B", "C", models_max=2)
    story.idle(1, "A")
    story.idle(2, "B")
    story.ask(3, "C")

    assert story.ask(4, "C") == []
    assert story.wait(1.0) == []


def test_a_question_about_a_model_is_no_use_of_it():
    story = Story("A", "B", "C", models_max=2)
    a = story.idle(1, "A")
    story.idle(2, "B")
    story.look(3, "A")
    story.release(3)

    assert story.ask(4, "C") == [AskExit(a, Reason.EVICTED, "C")]
