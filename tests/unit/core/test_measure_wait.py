"""L5: what takes nobody knows how much waits for its measurement, for a while, and holds nobody
up."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Reason, Undrain
from scheduler.core.states import State
from scheduler.core.values import Kind

from .memory import sized, stepped
from .shapes import A
from .story import Story, codes, granted, preset, started


def unmeasured(name: str = "m", size: int = 6, **options):
    """What its header says is known already."""
    return preset(name, fixed=sized(((A, size),)), estimated=True, measuring=True, **options)


def measured(name: str = "m", size: int = 6):
    return preset(name, fixed=sized(((A, size),)))


def machine(*presets, **config) -> Story:
    story = Story(*presets, **{"models_max": 0, **config})
    story.devices(CUDA0=10)
    return story


def test_one_that_is_being_measured_is_not_loaded_before():
    story = machine(unmeasured())

    assert story.ask(1, "m") == []
    assert started(story.edit(measured())) == ["m"]


def test_after_ten_seconds_the_guess_by_its_header_counts():
    story = machine(unmeasured())
    story.ask(1, "m")
    asked_at = story.now

    decided = story.through(asked_at + 20)

    assert [(at, started([d])) for at, d in decided] == [(asked_at + 10.0, ["m"])]


def test_how_long_it_waits_is_configured():
    story = machine(unmeasured(), measure_wait_seconds=3.0)
    story.ask(1, "m")
    asked_at = story.now

    assert [at for at, _ in story.through(asked_at + 20)] == [asked_at + 3.0]


def test_it_waits_from_its_first_waiter_on_however_many_come():
    story = machine(unmeasured())
    story.ask(1, "m")
    asked_at = story.now
    story.wait(5)
    story.ask(2, "m")

    assert [at for at, _ in story.through(asked_at + 20)] == [asked_at + 10.0]


def test_nobody_is_evicted_while_it_is_measured():
    story = machine(unmeasured(), measured("x"))
    x = story.idle(1, "x")

    assert story.ask(2, "m") == []
    assert story.edit(measured(), measured("x")) == [AskExit(x, Reason.EVICTED, "m")]


def test_others_go_on_meanwhile():
    story = machine(unmeasured(), measured("x", 4), measured("y", 4))
    story.ask(1, "m")

    assert started(story.ask(2, "x")) == ["x"]
    assert granted(story.ready("x")) == [2]
    assert started(story.ask(3, "y")) == ["y"]


def test_it_keeps_its_place_before_those_who_came_later():
    story = machine(unmeasured(), measured("x", 4), measured("y", 4))
    story.ask(1, "m")
    story.ask(2, "x")
    story.ask(3, "y")
    story.edit(measured(size=2), measured("x", 4), measured("y", 4))

    assert started(story.ready("x")) == ["m"]


def test_room_that_was_made_for_it_waits_when_it_is_measured_anew_meanwhile():
    story = machine(measured(), measured("x"))
    x = story.idle(1, "x")
    assert story.ask(2, "m") == [AskExit(x, Reason.EVICTED, "m")]
    story.edit(unmeasured(), measured("x"))

    assert story.exit(x) == []
    assert started(story.edit(measured(), measured("x"))) == ["m"]


def test_a_measurement_that_failed_leaves_the_guess():
    story = machine(unmeasured())
    story.ask(1, "m")

    assert started(story.edit(preset("m", fixed=sized(((A, 6),)), estimated=True))) == ["m"]


def test_a_look_does_not_load_what_is_being_measured():
    story = machine(unmeasured())

    assert codes(story.look(1, "m")) == {1: "model_not_loaded"}


def test_a_start_up_load_waits_for_its_measurement_too():
    story = machine(unmeasured(), measured("x", 4))
    assert story.ask(1, "m", Kind.STARTUP) == []
    assert started(story.ask(2, "x")) == ["x"]

    assert started(story.edit(measured(), measured("x", 4)) + story.ready("x")) == ["m"]


def test_where_no_device_is_known_nothing_waits_for_figures():
    story = Story(unmeasured())

    assert started(story.ask(1, "m")) == ["m"]


def test_what_is_loaded_serves_while_it_is_measured_anew():
    story = machine(measured())
    story.idle(1, "m")
    story.edit(unmeasured())

    assert granted(story.ask(2, "m")) == [2]


# What others are granted meanwhile ----------------------------------------------------------


def test_a_grant_leaves_room_for_one_that_is_being_measured():
    story = machine(unmeasured(size=6), preset("other", fixed=stepped(2, 3, 9)))
    story.ask(1, "m")

    (start,) = story.ask(2, "other")

    assert (start.preset.name, start.grant.need.own) == ("other", ((A, 3),))
    assert started(story.edit(measured(), preset("other", fixed=stepped(2, 3, 9)))) == []
    assert started(story.ready("other")) == ["m"]


def test_none_for_one_of_which_nothing_is_known_or_that_would_not_fit_beside_it():
    for waiting in (preset("m", measuring=True), unmeasured(size=9)):
        story = machine(waiting, preset("other", fixed=stepped(2, 3, 9)))
        story.ask(1, "m")

        (start,) = story.ask(2, "other")

        assert start.grant.need.own == ((A, 9),)


def test_it_waits_once_and_not_before_each_load():
    story = machine(unmeasured(), preset("other", need=((A, 8),)))
    story.ask(1, "m")
    story.through(story.now + 11)
    story.ready("m")
    story.release(1)
    story.ask(2, "other")
    story.exit(1)
    story.ready("other")
    story.release(2)

    story.ask(3, "m")

    assert started(story.exit(2)) == ["m"]


def test_a_changed_preset_waits_for_its_own_measurement():
    story = machine(unmeasured())
    story.ask(1, "m")
    story.through(story.now + 11)
    story.ready("m")
    story.release(1)

    story.edit(unmeasured(fingerprint="changed"))
    story.exit(1)

    assert story.ask(2, "m") == []


def test_a_drain_that_nobody_needs_any_more_is_not_passed_on_to_it():
    """It would give the room up again, in the same step, without end: the core hung."""
    big = preset("a", need=((A, 8),))
    story = machine(big, preset("b", need=((A, 6),)), unmeasured())
    story.busy(1, "a")
    story.ask(2, "b")
    story.through(story.now + 60)
    assert story.of("a").state is State.DRAINING
    story.ask(3, "m")

    undone = story.cancel(2)

    assert [type(decision) for decision in undone] == [Undrain]
    drained = [type(d) for _, d in story.through(story.now + 60)]
    assert drained == [Drain]
    assert [type(d) for d in story.release(1)] == [AskExit]
    assert started(story.exit(1)) == ["m"]
