"""Placing on small machines, against every placement there is."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.placing import clipped, fits, largest, missing, need_of, steps, tiers
from scheduler.core.sizes import (
    HOST,
    FileId,
    Kind,
    Layer,
    Need,
    OpenShape,
    Placement,
)

from .shapes import FILE, A, B, C, all_placements, all_runs, best

SMALL = st.integers(0, 6)


@st.composite
def shapes(draw):
    blocks, points = draw(st.integers(1, 5)), draw(st.integers(1, 3))

    def growing(most: int) -> tuple[int, ...]:
        return tuple(sorted(draw(st.integers(0, most)) for _ in range(points)))

    def layer() -> Layer:
        weights = draw(SMALL)
        return Layer(weights, growing(4), largest=draw(st.integers(0, weights)))

    return OpenShape(
        contexts=tuple(1024 << step for step in range(points)),
        layers=tuple(layer() for _ in range(blocks)),
        devices=(A, B, C)[: draw(st.integers(0, 3))],
        receiving=draw(st.sampled_from([(), (B,), (A, C)])),
        file=draw(st.sampled_from([FILE, FileId("")])),
        mapped=tuple(draw(st.integers(0, 8)) for _ in range(blocks + 1)),
        device_compute=growing(2),
        host_compute=(growing(2), growing(4)),
        host_fixed=draw(st.integers(0, 2)),
        device_fixed=draw(st.integers(0, 2)),
        first_device_fixed=draw(st.sampled_from([(), growing(4)])),
        spread_compute=draw(st.sampled_from([((), ()), (growing(3), growing(4))])),
    )


def rooms(most: int = 24):
    sizes = st.integers(-1, most)
    return st.dictionaries(st.sampled_from([A, B, C, HOST]), sizes, min_size=2)


mapped_files = st.dictionaries(st.sampled_from([FILE, FileId("other")]), SMALL)


def place_in_line(placement: Placement) -> tuple[int, int]:
    """The better, the less; the same for placements of one tier."""
    fewer = -sum(count for _, count in placement.layers) if placement.kind is Kind.PARTIAL else 0
    return list(Kind).index(placement.kind), fewer


def layer_by_layer(shape: OpenShape, placement: Placement, step: int) -> Need:
    """What it takes, told one layer at a time."""
    places = [device for device, count in placement.layers for _ in range(count)]
    places = [HOST] * (len(shape.layers) - len(places)) + places
    own = dict.fromkeys((*shape.devices, HOST), 0)
    for layer, place in zip(shape.layers, places, strict=True):
        own[place] += layer.cache[step] + (0 if place == HOST else layer.weights)
    used = [device for device in shape.devices if device in places]
    compute = shape.device_compute, shape.host_compute[int(HOST in places)]
    if len(used) > 1 and HOST not in places and shape.spread_compute[0]:
        compute = shape.spread_compute
    for device in used:
        own[device] += compute[0][step] + shape.device_fixed
    own[(*used, HOST)[0]] += shape.first_device_fixed[step] if shape.first_device_fixed else 0
    own[HOST] += compute[1][step] + shape.host_fixed
    maps = shape.mapped[len(shape.layers) - places.count(HOST)]
    if not shape.file:
        own[HOST] += maps
    copies = {}
    for device in used:
        there = [layer for layer, at in zip(shape.layers, places, strict=True) if at == device]
        without = own[device] - sum(layer.weights for layer in there)
        copies[device] = max(layer.largest for layer in there) - without
    passing = [item for item in copies.items() if item[0] in shape.receiving and item[1] > 0]
    for device, size in passing:
        own[device] += size
    return Need(
        tuple(item for item in own.items() if item[1]),
        ((shape.file, maps),) if shape.file and maps else (),
        tuple(passing),
    )


@given(shapes())
def test_a_need_is_the_sum_of_its_layers(shape):
    for placement in all_placements(shape):
        needs = [need_of(shape, placement, step) for step in range(steps(shape))]
        assert needs == [layer_by_layer(shape, placement, step) for step in range(steps(shape))]
        for smaller, larger in pairwise(needs):
            assert all(size <= dict(larger.own)[device] for device, size in smaller.own)


@given(shapes(), rooms(), rooms(), mapped_files, mapped_files)
def test_in_each_tier_there_is_a_placement_for_whichever_machine_has_room_for_one(
    shape, free, roomy, mapped, mapped_roomy
):
    found = list(tiers(shape, free, roomy, mapped=mapped, mapped_roomy=mapped_roomy))
    machines = [(free, mapped), (roomy, mapped_roomy)]

    def has_room(placement, machine) -> bool:
        return fits(need_of(shape, placement, 0), *machine)

    everywhere = {p for tier in found for p in tier.placements}
    assert everywhere <= set(all_placements(shape))
    assert all(any(has_room(p, m) for m in machines) for p in everywhere)
    for machine in machines:
        offered = {place_in_line(p) for p in everywhere if has_room(p, machine)}
        wanted = {place_in_line(p) for p in all_placements(shape) if has_room(p, machine)}
        if (1, 0) in offered:
            # What fits whole on one device of a set is not divided by force.
            wanted.discard((2, 0))
            offered.discard((2, 0))
        assert offered == wanted


@given(shapes(), rooms(), rooms())
def test_tiers_come_best_first_and_are_the_same_each_time(shape, free, roomy):
    found = list(tiers(shape, free, roomy))

    lines = [[place_in_line(p) for p in tier.placements] for tier in found]
    assert all(len(set(line)) == 1 for line in lines)
    assert lines == sorted(lines)
    assert len({line[0] for line in lines}) == len(lines)
    assert all(len(set(tier.placements)) == len(tier.placements) for tier in found)
    assert found == list(tiers(shape, dict(sorted(free.items())), dict(sorted(roomy.items()))))


@given(shapes(), rooms(), mapped_files)
def test_the_best_is_the_best_of_all_that_fit(shape, roomy, mapped):
    found = best(shape, roomy, mapped)

    fitting = [p for p in all_placements(shape) if fits(need_of(shape, p, 0), roomy, mapped)]
    if not fitting:
        assert found is None
    else:
        assert found is not None
        assert place_in_line(found.placements[0]) == min(map(place_in_line, fitting))


@given(shapes(), rooms(), rooms())
def test_the_devices_are_filled_from_least_left_over(shape, free, roomy):
    now = [t for t in tiers(shape, free, roomy) if t.kind is Kind.WHOLE]

    left = [
        (not fits(need, free), (free if fits(need, free) else roomy).get(device, math.inf) - size)
        for tier in now
        for need in (need_of(shape, placement, 0) for placement in tier.placements)
        for device, size in [next(iter(need.own), (A, 0))]
        if device != HOST
    ]
    assert left == sorted(left)


@given(shapes(), rooms(most=16))
def test_no_fewer_of_the_largest_devices_would_have_done(shape, room):
    if any(fits(need_of(shape, p, 0), room) for p in all_placements(shape) if len(p.layers) == 1):
        return
    largest_first = sorted(shape.devices, key=lambda device: -room.get(device, 10**6))
    for tier in tiers(shape, room, room):
        for placement in tier.placements:
            count = sum(layers for _, layers in placement.layers)
            for fewer in range(2 if tier.kind is Kind.SPREAD else 1, len(placement.layers)):
                chosen = set(largest_first[:fewer])
                assert not any(
                    {device for device, _ in runs} == chosen
                    and fits(need_of(shape, Placement(tier.kind, runs), 0), room)
                    for runs in all_runs(shape, count)
                )


@given(shapes(), rooms(), mapped_files)
def test_the_largest_context_is_the_last_that_fits(shape, free, mapped):
    for placement in all_placements(shape):
        fitting = [
            step
            for step in range(steps(shape))
            if fits(need_of(shape, placement, step), free, mapped)
        ]
        assert largest(shape, placement, free, mapped) == max(fitting, default=0)


own_bytes = st.lists(st.tuples(st.sampled_from([A, B, HOST]), SMALL), unique_by=lambda own: own[0])
file_bytes = st.lists(
    st.tuples(st.sampled_from([FILE, FileId("other")]), SMALL), unique_by=lambda file: file[0]
)
needs = st.builds(Need, own_bytes.map(tuple), file_bytes.map(tuple))


@given(needs, rooms(most=12), mapped_files)
def test_with_as_much_more_as_is_missing_it_fits_and_with_a_byte_less_it_does_not(
    need, free, mapped
):
    short = missing(need, free, mapped)
    enough = {**free, **{device: free[device] + size for device, size in short}}

    assert fits(need, free, mapped) is (not short)
    assert fits(need, enough, mapped)
    for device, _ in short:
        assert not fits(need, {**enough, device: enough[device] - 1}, mapped)


@given(needs, rooms(most=12))
def test_a_clipped_need_fits_takes_all_that_it_lacks_and_else_what_it_took(need, most):
    most = {device: max(0, size) for device, size in most.items()}
    cut = clipped(need, most)

    def on(need: Need) -> dict:
        found = dict(need.own)
        found[HOST] = found.get(HOST, 0) + sum(size for _, size in need.mapped)
        return {device: size for device, size in found.items() if size}

    wanted = {device: min(size, most.get(device, size)) for device, size in on(need).items()}
    assert on(cut) == {device: size for device, size in wanted.items() if size}
    assert fits(cut, most)
    assert all(size <= dict(need.mapped)[file] for file, size in cut.mapped)
