"""A6: what others than Corral use stands in the way of one, and of nobody else."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason
from scheduler.core.events import DevicesRead
from scheduler.core.values import Kind

from .memory import listing
from .shapes import A
from .story import Story, codes, granted, preset, refused, started


def on_gpu(name: str, size: int, **options):
    return preset(name, need=((A, size),), **options)


def machine(*presets, others: int = 6, **config) -> Story:
    """Ten bytes on one GPU."""
    story = Story(*presets, **{"models_max": 0, "max_wait_seconds": 30.0, **config})
    read(story, others)
    return story


def read(story: Story, others: int) -> list:
    return story.tell(DevicesRead((listing(A, 10, others=others),)))


def test_who_cannot_start_for_what_others_use_is_told_so_after_max_wait():
    story = machine(on_gpu("m", 6))
    assert story.ask(1, "m") == []
    asked_at = story.now

    ((at, answer),) = story.through(asked_at + 60)

    assert at == asked_at + 30.0
    assert codes([answer]) == {1: "memory_in_use"}
    assert refused([answer])[1].retry_after_seconds > 0
    assert refused([answer])[1].short == ((A, 2),)


def test_its_own_max_wait_counts():
    story = machine(on_gpu("m", 6, max_wait_seconds=5.0))
    story.ask(1, "m")
    asked_at = story.now

    assert [at for at, _ in story.through(asked_at + 60)] == [asked_at + 5.0]


def test_it_starts_at_the_reading_that_shows_room():
    story = machine(on_gpu("m", 6))
    story.ask(1, "m")

    assert read(story, others=5) == []
    assert started(read(story, others=4)) == ["m"]


def test_it_evicts_nobody_while_that_would_not_suffice():
    story = machine(on_gpu("m", 6), on_gpu("x", 4))
    x = story.idle(1, "x")
    assert story.ask(2, "m") == []

    assert read(story, others=4) == [AskExit(x, Reason.EVICTED, "m")]


def test_others_go_on_meanwhile():
    story = machine(on_gpu("m", 6), on_gpu("x", 3), on_gpu("y", 1))
    story.ask(1, "m")

    assert started(story.ask(2, "x")) == ["x"]
    assert granted(story.ready("x")) == [2]
    assert started(story.ask(3, "y")) == ["y"]


def test_a_time_in_which_there_was_room_starts_the_wait_anew():
    story = machine(on_gpu("m", 6), "other")
    story.ask(1, "other")
    story.ask(2, "m")
    story.wait(20)
    read(story, others=0)  # it is next, but the loader is taken
    read(story, others=6)
    again_at = story.now

    refusals = [(at, d) for at, d in story.through(again_at + 60) if codes([d])]

    assert [at for at, _ in refusals] == [again_at + 30.0]


def test_a_start_up_load_is_refused_at_once():
    story = machine(on_gpu("m", 6))

    assert codes(story.ask(1, "m", Kind.STARTUP)) == {1: "memory_in_use"}


def test_a_look_is_told_that_it_is_not_loaded():
    story = machine(on_gpu("m", 6))

    assert codes(story.look(1, "m")) == {1: "model_not_loaded"}


def test_what_runs_is_not_touched_by_what_others_take():
    story = machine(on_gpu("m", 6), others=0)
    story.busy(1, "m")

    assert read(story, others=4) == []
    assert granted(story.release(1) + story.ask(2, "m")) == [2]
