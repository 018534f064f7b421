"""L9, L6: which place a preset gets, what it waits for, and what it is told where there is none."""

from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Reason, Start
from scheduler.core.events import DevicesRead
from scheduler.core.sizes import HOST, ON_HOST, Placement
from scheduler.core.values import Exit, Kind

from .memory import listing, sized
from .shapes import A, B, model, whole
from .story import Story, codes, preset, refused, started

RAN_OUT = Exit(code=1, out_of_memory=True)


def anywhere(name: str, size: int = 6, devices=(A,), **options):
    """So much on one device, or as much on the host; it cannot be divided."""
    return preset(name, open=model(size, devices=devices, mapped=(size, 0)), **options)


def on(name: str, size: int, device=A, **options):
    return preset(name, need=((device, size),), **options)


def machine(*presets, **sizes: int) -> Story:
    story = Story(*presets, models_max=0)
    read(story, **sizes)
    return story


def read(story: Story, others: int = 0, **sizes: int) -> list:
    """Devices of such sizes; others use so much of the first GPU."""
    names = {"a": A, "b": B, "host": HOST}
    return story.tell(
        DevicesRead(
            tuple(
                listing(names[name], size, others=others if name == "a" else 0)
                for name, size in sizes.items()
            )
        )
    )


def place(decisions) -> Placement:
    (start,) = [decision for decision in decisions if isinstance(decision, Start)]
    return start.grant.placement


# The best there could be -----------------------------------------------------------------


def test_of_devices_that_are_as_good_the_one_with_least_left_over_is_taken():
    story = machine(anywhere("m", devices=(A, B)), a=20, b=8, host=60)

    assert place(story.ask(1, "m")) == whole(B, 1)


def test_where_nobody_has_to_go_is_better_than_a_closer_fit():
    story = machine(anywhere("m", devices=(A, B)), on("x", 8, B), a=20, b=8, host=60)
    story.idle(1, "x")

    assert place(story.ask(2, "m")) == whole(A, 1)
    assert story.of("x").state == "loaded"


def test_the_idle_go_before_a_worse_place_is_taken():
    story = machine(anywhere("m"), on("x", 8), a=8, host=60)
    x = story.idle(1, "x")

    assert story.ask(2, "m") == [AskExit(x, Reason.EVICTED, "m")]
    assert place(story.exit(x)) == whole(A, 1)


def test_a_busy_one_is_waited_for_before_a_worse_place_is_taken():
    story = machine(anywhere("m"), on("x", 8), a=8, host=60)
    x = story.busy(1, "x")
    assert story.ask(2, "m") == []

    assert story.release(1) == [AskExit(x, Reason.EVICTED, "m")]
    assert place(story.exit(x)) == whole(A, 1)


def test_what_a_pinned_one_holds_is_not_waited_for():
    story = machine(anywhere("m"), on("x", 8, pinned=True), a=8, host=60)
    story.idle(1, "x")

    assert place(story.ask(2, "m")) == ON_HOST


def test_a_pin_on_one_device_leaves_the_other():
    story = machine(
        anywhere("m", devices=(A, B)), on("x", 8, pinned=True), on("y", 8, B), a=8, b=8, host=60
    )
    story.idle(1, "x")
    y = story.idle(2, "y")

    assert story.ask(3, "m") == [AskExit(y, Reason.EVICTED, "m")]
    assert place(story.exit(y)) == whole(B, 1)


def test_what_others_use_is_not_waited_for():
    story = machine(anywhere("m"), a=8, host=60)
    read(story, others=4, a=8, host=60)

    assert place(story.ask(1, "m")) == ON_HOST


def test_a_place_that_others_have_taken_meanwhile_is_given_up_for_what_there_is():
    story = machine(anywhere("m"), on("x", 8), a=8, host=60)
    story.idle(1, "x")
    story.ask(2, "m")

    assert place(read(story, others=5, a=8, host=60)) == ON_HOST


# The best there is now -------------------------------------------------------------------


def test_who_takes_what_there_is_now_does_not_wait_for_a_busy_one():
    story = machine(anywhere("m", placement_now=True), on("x", 8), a=8, host=60)
    story.busy(1, "x")

    assert place(story.ask(2, "m")) == ON_HOST


def test_who_takes_what_there_is_now_has_the_idle_evicted_first():
    story = machine(anywhere("m", placement_now=True), on("x", 8), a=8, host=60)
    x = story.idle(1, "x")

    assert story.ask(2, "m") == [AskExit(x, Reason.EVICTED, "m")]


def test_who_takes_what_there_is_now_takes_the_best_of_it():
    story = machine(anywhere("m", placement_now=True), a=8, host=60)

    assert place(story.ask(1, "m")) == whole(A, 1)


def test_who_takes_what_there_is_now_waits_where_there_is_nothing():
    story = machine(anywhere("m", placement_now=True), on("x", 8), on("y", 9, HOST), a=8, host=9)
    story.busy(1, "x")
    story.ask(2, "y")
    story.ready("y")

    assert story.ask(3, "m") == []


# None at all -----------------------------------------------------------------------------


def test_what_is_measured_to_be_larger_than_the_machine_is_refused_at_once():
    story = machine(on("m", 9), a=8)

    answer = story.ask(1, "m")

    assert codes(answer) == {1: "model_too_large"}
    assert refused(answer)[1].short == ((A, 1),)
    assert refused(answer)[1].retry_after_seconds is None


def test_a_budget_counts_like_the_size_of_the_device():
    story = Story(on("m", 6), models_max=0)
    story.tell(DevicesRead((listing(A, 8, budget=5),)))

    assert codes(story.ask(1, "m")) == {1: "model_too_large"}


def test_it_is_said_what_is_missing_where_least_is_missing():
    story = machine(anywhere("m", 20), a=12, host=17)

    assert refused(story.ask(1, "m"))[1].short == ((HOST, 3),)


def test_pins_that_leave_no_place_are_named():
    story = machine(anywhere("m"), on("x", 8, pinned=True), a=8, host=5)
    story.idle(1, "x")

    answer = story.ask(2, "m")

    assert codes(answer) == {2: "blocked_by_pinned"}
    assert refused(answer)[2].blocked_by == ("x",)


# L6: too large by a guess ----------------------------------------------------------------


def guessed(size: int = 30, **options):
    return preset("m", fixed=sized(((A, size),)), estimated=True, **options)


def test_what_is_only_guessed_to_be_too_large_is_tried_alone_with_all_there_is():
    story = machine(guessed(), on("x", 4), a=20, host=60)
    x = story.idle(1, "x")

    assert story.ask(2, "m") == [AskExit(x, Reason.EVICTED, "m")]
    (start,) = story.exit(x)
    assert start.grant.need.own == ((A, 20),)


def test_if_that_runs_out_of_memory_it_is_not_tried_again():
    story = machine(guessed(), a=20)
    story.ask(1, "m")

    assert codes(story.exit(story.of("m").id, RAN_OUT)) == {1: "out_of_memory"}
    assert codes(story.ask(2, "m", after=120)) == {2: "model_too_large"}


@pytest.mark.parametrize(
    "how", ["a person asks", "other options", "a smaller guess", "more memory"]
)
def test_it_is_tried_again_when_there_is_a_reason(how):
    story = machine(guessed(), a=20)
    story.ask(1, "m")
    story.exit(story.of("m").id, RAN_OUT)
    if how == "other options":
        story.edit(guessed(fingerprint="other"))
    elif how == "a smaller guess":
        story.edit(guessed(10, fingerprint="smaller"))
    elif how == "more memory":
        story.devices(CUDA0=30)

    kind = Kind.LOAD if how == "a person asks" else Kind.POST
    assert started(story.ask(2, "m", kind, after=120)) == ["m"]


def test_a_guess_is_not_tried_beside_a_pinned_one_and_that_is_named():
    story = machine(guessed(), on("x", 4, pinned=True), a=20)
    story.idle(1, "x")

    answer = story.ask(2, "m")

    assert codes(answer) == {2: "blocked_by_pinned"}
    assert refused(answer)[2].blocked_by == ("x",)


def test_a_guess_that_fits_the_machine_waits_for_what_others_use():
    story = machine(guessed(10), a=12)
    read(story, others=6, a=12)

    assert story.ask(1, "m") == []
    assert started(read(story, others=2, a=12)) == ["m"]


def test_a_guess_whose_place_is_open_goes_where_it_fits():
    story = machine(anywhere("m", 30, estimated=True), a=20, host=60)

    assert place(story.ask(1, "m")) == ON_HOST
