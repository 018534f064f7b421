"""A preset gets another name: clients that ask by the old one are served by the new one."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Kill, Reason

from .story import Story, codes, granted, preset, started


def test_who_waits_for_the_old_name_is_served_under_the_new_one():
    story = Story("a", "b", models_max=1)
    story.busy(1, "b")
    story.ask(2, "a")

    assert story.rename("a", "new", "b", to="new") == []
    assert story.queue == ["new"]
    story.release(1)
    assert started(story.exit(1)) == ["new"]
    assert granted(story.ready("new")) == [2]


def test_its_waiters_keep_their_place():
    story = Story("a", "b", "c", models_max=1)
    story.busy(1, "c")
    story.ask(2, "a")
    story.ask(3, "b")
    story.ask(4, "new")
    story.rename("a", "new", "b", "c", to="new")

    assert story.queue == ["new", "b"]


def test_they_join_those_who_wait_for_the_new_name_already_by_their_arrival():
    story = Story("a", "new", models_max=1)
    story.ask(1, "new")
    story.ask(2, "a")
    story.ask(3, "new")
    story.rename("a", preset("new", parallel=2), to="new")
    story.exit(1)

    assert granted(story.ready("new")) == [1, 2]


def test_a_rename_gives_no_more_time_to_wait():
    patience = {"max_wait_seconds": 1000, "quantum_seconds": 1000}
    story = Story("a", "b", models_max=1, queue_wait_seconds=60, **patience)
    story.busy(1, "b")
    story.ask(2, "a")
    story.wait(40)
    story.rename("a", "new", "b", to="new")

    assert story.wait(18) == []
    assert codes(story.wait(1)) == {2: "queue_timeout"}


def test_the_load_under_way_is_done_anew_under_the_new_name():
    story = Story("a")
    story.ask(1, "a")

    answer = story.rename("a", "new", to="new")

    assert answer[0] == Kill(1, Reason.REMOVED)
    assert started(answer) == ["new"]
    assert granted(story.ready("new")) == [1]


def test_the_instance_of_the_old_name_goes_when_nobody_reads_from_it():
    story = Story("a")
    story.busy(1, "a")

    assert story.rename("a", "new", to="new") == [Drain(1, Reason.REMOVED)]
    assert story.release(1) == [AskExit(1, Reason.REMOVED)]


def test_a_name_that_leads_to_no_preset_is_removed():
    story = Story("a")
    story.ask(1, "a")

    assert codes(story.rename("a", to="gone")) == {1: "model_removed"}
