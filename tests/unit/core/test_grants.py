"""L2: what an instance is granted, what it holds, and what is learned from what it took."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.decisions import AskExit, Reason, Start
from scheduler.core.events import AllocationReported, DevicesRead, PresetsChanged
from scheduler.core.sizes import HOST, DeviceId, FixedShape, Need
from scheduler.core.values import Exit, Kind

from .memory import listing, stepped
from .shapes import A, B, model
from .story import CLEAN, Story, codes, preset, started

RAN_OUT = Exit(code=1, out_of_memory=True)
TOKENS = (1024, 2048, 4096)


def growing(name: str, *sizes: int, **options):
    return preset(name, fixed=stepped(*sizes), **options)


def machine(*presets, gpu: int, **config) -> Story:
    story = Story(*presets, **{"models_max": 0, **config})
    story.devices(CUDA0=gpu)
    return story


def contexts(decisions) -> dict[str, int]:
    return {d.preset.name: d.grant.context for d in decisions if isinstance(d, Start)}


def took(story: Story, name: str, size: int, device: DeviceId = A) -> list:
    return story.tell(AllocationReported(story.of(name).id, Need(((device, size),))))


def reloaded(story: Story, request: int, name: str) -> Start:
    """Its next start, when it has exited."""
    story.exit(story.of(name).id, CLEAN)
    (start,) = story.ask(request, name)
    assert isinstance(start, Start)
    return start


# The largest that fits ---------------------------------------------------------------------


def test_the_grant_is_the_largest_context_that_fits():
    for gpu, context in [(9, 4096), (8, 2048), (5, 2048), (4, 1024), (3, 1024)]:
        assert contexts(machine(growing("m", 3, 5, 9), gpu=gpu).ask(1, "m")) == {"m": context}


def test_nobody_goes_for_a_larger_context():
    story = machine(growing("m", 3, 5, 9), growing("x", 4), gpu=10)
    story.idle(1, "x")

    assert contexts(story.ask(2, "m")) == {"m": 2048}
    assert story.of("x").state == "loaded"


def test_who_goes_for_the_smallest_context_leaves_what_it_leaves():
    story = machine(growing("m", 3, 5, 9), growing("x", 8), gpu=10)
    x = story.idle(1, "x")

    assert story.ask(2, "m") == [AskExit(x, Reason.EVICTED, "m")]
    assert contexts(story.exit(x)) == {"m": 4096}


def test_a_margin_is_left_free():
    story = Story(growing("m", 3, 5, 9), models_max=0)
    story.tell(DevicesRead((listing(A, 10, margin=2),)))

    assert contexts(story.ask(1, "m")) == {"m": 2048}


def test_a_budget_is_not_exceeded():
    story = Story(growing("m", 3, 5, 9), models_max=0)
    story.tell(DevicesRead((listing(A, 100, budget=6),)))

    assert contexts(story.ask(1, "m")) == {"m": 2048}


def test_a_context_is_granted_where_the_model_is_put():
    shape = model(2, 2, cache=(1, 4), devices=(A, B))
    story = Story(preset("m", open=shape), models_max=0)
    story.devices(CUDA0=6, CUDA1=11)

    (start,) = story.ask(1, "m")

    assert start.grant.placement.layers == ((A, 2),)
    assert (start.grant.context, start.grant.need.own) == (4096, ((A, 6),))


def test_where_memory_is_not_counted_nothing_is_granted():
    story = Story(growing("m", 3, 5, 9))

    assert contexts(story.ask(1, "m")) == {"m": 0}


# Room for those who wait -------------------------------------------------------------------


def test_a_grant_leaves_room_for_the_smallest_of_those_who_wait():
    story = machine("first", growing("m", 3, 5, 9), growing("n", 3, 6), gpu=10)
    story.ask(1, "first")
    story.ask(2, "m")
    story.ask(3, "n")

    assert contexts(story.ready("first")) == {"m": 2048}
    assert contexts(story.ready("m")) == {"n": 1024}


def test_it_leaves_none_for_one_that_does_not_fit_beside_its_own_smallest():
    story = machine("first", growing("m", 3, 5, 9), growing("n", 8), growing("o", 1), gpu=10)
    for request, name in enumerate(["first", "m", "n", "o"], start=1):
        story.ask(request, name)

    assert contexts(story.ready("first")) == {"m": 4096}


def test_it_leaves_room_for_start_up_loads():
    story = machine("first", growing("m", 3, 5, 9), growing("n", 3), gpu=10)
    story.ask(1, "first")
    story.ask(2, "m")
    story.ask(3, "n", Kind.STARTUP)

    assert contexts(story.ready("first")) == {"m": 2048}


def test_a_grant_is_never_below_its_own_smallest():
    story = machine("first", growing("m", 6, 9), growing("n", 4), growing("o", 4), gpu=10)
    for request, name in enumerate(["first", "m", "n", "o"], start=1):
        story.ask(request, name)

    assert contexts(story.ready("first")) == {"m": 1024}


# Held from the start on, then what it took ---------------------------------------------------


def test_a_grant_is_held_from_the_start_on():
    story = machine(growing("m", 3, 5, 9), growing("n", 3), gpu=11, models_max_loading=2)
    story.ask(1, "m")

    assert story.ask(2, "n") == []


def test_what_was_reported_is_held_instead():
    story = machine(growing("m", 3, 5, 9), growing("n", 3), gpu=11)
    story.busy(1, "m")
    assert story.ask(2, "n") == []

    assert started(took(story, "m", 8)) == ["n"]


def test_more_than_was_granted_is_held_too():
    story = machine(growing("m", 6), growing("n", 4), gpu=10)
    story.busy(1, "m")
    took(story, "m", 7)

    assert story.ask(2, "n") == []


# What is learned ---------------------------------------------------------------------------


def test_what_it_took_beyond_its_grant_is_added_to_its_next_need():
    story = machine(growing("m", 3, 5, 9), gpu=10)
    story.idle(1, "m")
    took(story, "m", 11)

    start = reloaded(story, 2, "m")

    assert start.grant.context == 2048
    assert start.grant.need.own == ((A, 7),)


def test_what_it_took_less_is_not_taken_from_its_next_need():
    story = machine(growing("m", 6), gpu=10)
    story.idle(1, "m")
    took(story, "m", 4)

    assert reloaded(story, 2, "m").grant.need.own == ((A, 6),)


def test_the_same_allocation_told_twice_adds_nothing():
    story = machine(growing("m", 6), gpu=10)
    story.idle(1, "m")
    took(story, "m", 7)
    took(story, "m", 7)

    assert reloaded(story, 2, "m").grant.need.own == ((A, 7),)


def test_what_was_learned_is_learned_once():
    story = machine(growing("m", 6), gpu=10)
    story.idle(1, "m")
    took(story, "m", 7)
    reloaded(story, 2, "m")
    story.ready("m")
    story.release(2)
    took(story, "m", 7)

    assert reloaded(story, 3, "m").grant.need.own == ((A, 7),)


def test_what_was_taken_beyond_on_one_device_does_not_count_on_another():
    story = Story(preset("m", open=model(6, devices=(A, B), mapped=(6, 0))), models_max=0)
    story.devices(CUDA0=6, CUDA1=20)
    story.idle(1, "m")
    took(story, "m", 7)

    assert reloaded(story, 2, "m").grant.need.own == ((B, 6),)


def test_what_a_device_lacks_for_what_is_learned_keeps_its_layers_off_it():
    """Divided with what it takes besides in mind, not refused when that does not fit."""
    story = Story(preset("m", open=model(*[1] * 8, devices=(A, B))), models_max=0)
    story.devices(CUDA0=4, CUDA1=6)
    story.idle(1, "m")
    took(story, "m", story.of("m").grant.need.own[0][1] + 1)

    start = reloaded(story, 2, "m")

    assert start.grant.need.own == ((A, 4), (B, 5))
    assert start.grant.placement.layers == ((A, 3), (B, 5))


def test_mapped_bytes_beyond_its_grant_are_the_hosts():
    story = Story(preset("m", fixed=stepped(3, file="f", maps=4)), models_max=0)
    story.devices(CUDA0=10, Host=10)
    story.idle(1, "m")
    story.tell(AllocationReported(story.of("m").id, Need(((A, 3),), (("f", 6),))))

    need = reloaded(story, 2, "m").grant.need
    assert dict(need.own) == {A: 3, HOST: 2}
    assert need.mapped == (("f", 4),)


def test_with_other_options_nothing_of_it_is_known():
    story = machine(growing("m", 6), gpu=10)
    story.idle(1, "m")
    took(story, "m", 9)
    instance = story.of("m").id
    story.edit(growing("m", 6, fingerprint="other"))
    story.exit(instance, CLEAN)

    (start,) = story.ask(2, "m")

    assert start.grant.need.own == ((A, 6),)


# A4: out of memory ---------------------------------------------------------------------------


def test_a_load_out_of_memory_is_tried_with_the_next_smaller_context_three_times_in_all():
    story = machine(growing("m", 3, 5, 9), gpu=10)
    assert contexts(story.ask(1, "m")) == {"m": 4096}
    assert contexts(story.exit(1, RAN_OUT)) == {"m": 2048}
    assert contexts(story.exit(2, RAN_OUT)) == {"m": 1024}

    assert codes(story.exit(3, RAN_OUT)) == {1: "out_of_memory"}


def test_a_smaller_context_evicts_nobody():
    story = machine(growing("m", 3, 5), growing("x", 3), gpu=10)
    story.idle(1, "x")
    story.ask(2, "m")

    assert contexts(story.exit(story.of("m").id, RAN_OUT)) == {"m": 1024}
    assert story.of("x").state == "loaded"


def test_a_load_that_succeeds_may_be_large_again_the_next_time():
    story = machine(growing("m", 3, 5, 9), gpu=10)
    story.ask(1, "m")
    story.exit(1, RAN_OUT)
    story.ready("m")
    story.release(1)

    assert reloaded(story, 2, "m").grant.context == 4096


# What is needed while it loads only ------------------------------------------------------------


def test_what_a_load_needs_besides_is_held_until_the_child_says_what_it_took():
    need = Need(((A, 8),), passing=((A, 3),))
    story = machine(preset("m", fixed=FixedShape(((0, need),))), gpu=8)
    story.ask(1, "m")
    assert story.planner.ledger.free()[0][A] == 0

    took(story, "m", 5)

    assert story.planner.ledger.free()[0][A] == 3
    start = reloaded(story, 2, "m")
    assert (start.grant.need, start.grant.surplus) == (need, ())


def test_more_than_it_holds_once_loaded_is_learned():
    need = Need(((A, 8),), passing=((A, 3),))
    story = machine(preset("m", fixed=FixedShape(((0, need),))), gpu=20)
    story.ask(1, "m")

    took(story, "m", 6)

    start = reloaded(story, 2, "m")
    assert (dict(start.grant.need.own), start.grant.surplus) == ({A: 9}, ((A, 1),))


# What the record knows of earlier lives ---------------------------------------------------------


def test_what_an_earlier_life_took_beyond_the_figures_is_in_the_first_grant():
    story = machine(growing("m", 5, surplus=((A, 2),)), gpu=7)

    (start,) = story.ask(1, "m")

    assert (start.grant.need, start.grant.surplus) == (Need(((A, 7),)), ((A, 2),))
    assert codes(machine(growing("m", 5, surplus=((A, 2),)), gpu=6).ask(1, "m"))


def test_it_comes_with_the_figures_and_goes_with_them():
    story = machine(preset("m"), gpu=9)
    learned = growing("m", 5, surplus=((A, 2),))
    story.tell(PresetsChanged((learned,)))
    story.tell(PresetsChanged((replace(learned, pinned=True),)))
    assert story.ask(1, "m")[0].grant.surplus == ((A, 2),)

    story.tell(PresetsChanged((growing("m", 6),)))

    assert reloaded(story, 2, "m").grant.need == Need(((A, 6),))


def test_what_this_life_has_learned_stays_and_a_person_may_have_it_tried_without():
    learned = growing("m", 5, surplus=((A, 2),))
    story = machine(learned, gpu=20)
    story.ask(1, "m")
    took(story, "m", 9)
    story.tell(PresetsChanged((replace(learned, pinned=True),)))
    assert reloaded(story, 2, "m").grant.surplus == ((A, 4),)

    story.exit(story.of("m").id, CLEAN)
    (start,) = story.ask(3, "m", kind=Kind.LOAD)

    assert start.grant.surplus == ()
