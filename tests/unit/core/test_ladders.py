"""What a preset would take with larger contexts, and with more layers on devices."""

from __future__ import annotations

from scheduler.core.ladders import Wishes
from scheduler.core.sizes import HOST, Grant, Need
from scheduler.core.values import PresetName

from .shapes import A, model, partial, whole
from .story import preset
from .test_siting import machine, on

NAME = PresetName("edited")
SHAPE = model(3, 3, cache=(1, 2, 4), mapped=(6, 3, 0))


def test_each_context_says_whether_it_fits_now_or_with_the_others_gone():
    story = machine(on("other", 6), preset("edited"), a=16, host=60)
    story.ask(1, "other")

    found = story.planner.ladders(NAME, Wishes(SHAPE, whole(A, 2)), None)

    assert [(step.at, dict(step.need.own)[A]) for step in found.contexts] == [
        (4096, 8),
        (8192, 10),
        (16384, 14),
    ]
    assert [(step.now, step.empty) for step in found.contexts] == [
        (True, True),
        (True, True),
        (False, True),
    ]
    [device, _host] = found.rooms
    assert (device.device, device.total, device.now, device.empty) == (A, 16, 10, 16)


def test_more_layers_on_a_device_take_more_of_it_and_less_of_the_host():
    story = machine(preset("edited"), a=8, host=60)
    layers = (partial(a=1), whole(A, 2))

    found = story.planner.ladders(NAME, Wishes(SHAPE, whole(A, 2), layers, at=1), None)

    assert [(step.at, dict(step.need.own)[A], step.empty) for step in found.layers] == [
        (1, 5, True),
        (2, 10, False),
    ]
    assert dict(found.layers[0].need.mapped) == {SHAPE.file: 3}


def test_what_was_measured_of_one_context_shifts_all_of_them():
    story = machine(preset("edited"), a=20, host=60)
    known = Grant(whole(A, 2), 8192, Need(((A, 13), (HOST, 2))))

    found = story.planner.ladders(NAME, Wishes(SHAPE, whole(A, 2)), known)

    assert [dict(step.need.own)[A] for step in found.contexts] == [11, 13, 17]


def test_its_own_instance_counts_as_gone():
    story = machine(on("edited", 9), a=10, host=60)
    story.ask(1, "edited")

    found = story.planner.ladders(NAME, Wishes(SHAPE, whole(A, 2)), None)

    assert [step.now for step in found.contexts] == [True, True, False]
