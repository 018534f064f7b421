"""An edited preset: its new version starts beside the old one, where there is room."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Grant, Reason
from scheduler.core.values import Exit

from .story import Story, preset, started


def sized(name: str, fingerprint: str = "f", **options):
    return preset(name, fingerprint, need=(("gpu", 4),), **options)


def busy(*presets, gpu: int = 8, **config) -> Story:
    story = Story(*presets, models_max=0, **config)
    story.devices(gpu=gpu)
    story.ask(1, "a")
    story.ready("a")
    return story


def test_the_new_version_starts_beside_the_old_one_that_answers():
    story = busy(sized("a"))

    assert started(story.edit(sized("a", "edited"))) == ["a"]


def test_a_new_version_that_is_being_measured_waits_ten_seconds_for_it_though_nobody_asks():
    """Else it would wait for as long as nothing can be measured, and all who ask with it."""
    story = busy(sized("a"))
    edited = sized("a", "edited", measuring=True, estimated=True)

    assert story.edit(edited) == []
    assert story.planner.unmeasured(story.now) == [("a", False)]
    assert started(story.wait(6)) == []
    assert story.devices(gpu=8) == []
    assert story.planner.unmeasured(story.now) == [("a", True)]
    assert started([*story.wait(4), *story.devices(gpu=8)]) == ["a"]
    assert story.planner.unmeasured(story.now) == []


def test_its_header_is_asked_for_where_nothing_at_all_is_known_of_it():
    story = busy(sized("a"))

    story.edit(preset("a", "edited", measuring=True))
    story.wait(6)
    assert story.planner.unmeasured(story.now) == [("a", True)]
    story.wait(5)
    assert started(story.edit(sized("a", "edited", measuring=True, estimated=True))) == ["a"]


def test_the_old_one_serves_until_the_new_one_is_loaded():
    story = busy(sized("a", parallel=2))
    story.edit(sized("a", "edited", parallel=2))

    assert story.ask(2, "a") == [Grant(2, 1)]


def test_the_old_one_drains_when_the_new_one_is_loaded():
    story = busy(sized("a"))
    story.edit(sized("a", "edited"))

    assert Drain(1, Reason.REPLACED) in story.ready("a")
    assert story.ask(2, "a") == [Grant(2, 2)]
    assert story.release(1) == [AskExit(1, Reason.REPLACED)]


def test_it_waits_where_there_is_no_room_beside():
    story = busy(sized("a"), gpu=7)

    assert story.edit(sized("a", "edited")) == []
    assert story.release(1) == [AskExit(1, Reason.REPLACED)]


def test_nobody_is_evicted_for_it():
    story = busy(sized("a"), sized("b"), gpu=10)
    story.idle(9, "b")

    assert story.edit(sized("a", "edited"), sized("b")) == []


def test_a_new_version_that_does_not_load_leaves_the_old_one():
    story = busy(sized("a", parallel=2))
    story.edit(sized("a", "edited", parallel=2))

    assert story.exit(2, Exit(code=1)) == []
    assert story.ask(2, "a") == [Grant(2, 1)]


def test_where_memory_is_not_counted_the_old_one_serves_alone():
    story = Story("a", models_max=2)
    story.ask(1, "a")
    story.ready("a")

    assert story.edit(preset("a", "edited")) == []


def test_edited_back_the_old_one_stays_and_the_new_one_goes():
    story = busy(sized("a"))
    story.edit(sized("a", "edited"))

    story.edit(sized("a"))

    assert not story.planner.instances[1].stale
