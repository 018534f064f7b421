"""L9: where a model may be put, best first."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from scheduler.core.placing import (
    fits,
    largest,
    need_of,
    tiers,
)
from scheduler.core.sizes import FIXED, HOST, ON_HOST, FixedShape, Kind, Need, loaded

from .shapes import FILE, GIB, A, B, C, D, best, free, model, partial, spread, whole


def offered(shape, now, later=None, **mapped):
    """All placements, tier by tier; a machine without instances where only `now` is given."""
    roomy = now if later is None else later
    return [list(tier.placements) for tier in tiers(shape, now, roomy, **mapped)]


def only(kind: Kind, shape, now, later=None):
    """The placements of the one tier of this kind; none where there is no such tier."""
    found = [t.placements for t in tiers(shape, now, now if later is None else later)]
    of_kind = [placements for placements in found if placements[0].kind is kind]
    assert len(of_kind) <= 1
    return list(of_kind[0]) if of_kind else []


FIXED_SHAPE = FixedShape(((4096, Need(((A, 10), (HOST, 1)))), (8192, Need(((A, 20),)))))


# Which placements, and in what order ------------------------------------------------------


def test_a_fixed_preset_has_one_place_if_it_fits_at_all():
    assert offered(FIXED_SHAPE, free(a=10)) == [[FIXED]]
    assert offered(FIXED_SHAPE, free(a=9), free(a=10)) == [[FIXED]]
    assert offered(FIXED_SHAPE, free(a=9)) == []


def test_one_device_then_several_then_fewer_and_fewer_layers_then_the_host():
    shape = model(1, 1, 1, 1, devices=(A, B))

    assert offered(shape, free(a=4, b=4, host=0)) == [
        [whole(A, 4), whole(B, 4)],
        [spread(a=2, b=2)],
        [partial(a=3)],
        [partial(a=2)],
        [partial(a=1)],
        [ON_HOST],
    ]


def test_a_model_without_devices_goes_to_the_host_alone():
    assert offered(model(1, 1, devices=()), free(a=9, host=9)) == [[ON_HOST]]


def test_where_nothing_fits_nothing_is_offered_and_the_model_is_too_large():
    shape = model(5, 5, mapped=(10, 5, 0))

    assert offered(shape, free(a=4, host=9)) == []
    assert best(shape, free(a=4, host=9)) is None


def test_the_best_is_the_first_of_what_fits_the_empty_machine():
    shape = model(5, 5, mapped=(10, 5, 0))

    for room, kind in [
        (free(a=10, host=0), Kind.WHOLE),
        (free(a=9, host=5), Kind.PARTIAL),
        (free(a=4, host=10), Kind.HOST),
    ]:
        found = best(shape, room)
        assert found is not None
        assert found.kind is kind


def test_of_the_devices_that_have_room_now_the_one_with_least_left_over_comes_first():
    shape = model(4, 6, devices=(A, B, C))

    assert only(Kind.WHOLE, shape, free(a=30, b=12, c=12)) == [
        whole(B, 2),
        whole(C, 2),
        whole(A, 2),
    ]


def test_devices_that_have_room_only_with_others_gone_come_after_those_that_have_it_now():
    shape = model(4, 6, devices=(A, B, C, D))
    now, later = free(a=9, b=30, c=0, d=5), free(a=24, b=30, c=10, d=9)

    assert only(Kind.WHOLE, shape, now, later) == [whole(B, 2), whole(C, 2), whole(A, 2)]


def test_a_device_without_a_limit_is_filled_last():
    assert only(Kind.WHOLE, model(9, devices=(A, B)), free(b=80)) == [whole(B, 1), whole(A, 1)]


def test_a_whole_model_needs_room_on_the_host_too():
    shape = model(1, 1, mapped=(9, 4, 3))

    assert only(Kind.WHOLE, shape, free(a=2, host=3)) == [whole(A, 2)]
    assert only(Kind.WHOLE, shape, free(a=2, host=2)) == []


def test_a_spread_is_in_proportion_to_what_is_free():
    shape = model(*[1] * 12, devices=(A, B))

    assert only(Kind.SPREAD, shape, free(a=20, b=10)) == [spread(a=8, b=4)]
    assert only(Kind.SPREAD, shape, free(a=10, b=20)) == [spread(a=4, b=8)]


def test_a_spread_is_shifted_until_it_fits():
    heavy_end = model(1, 1, 1, 1, 1, 1, 1, 9, devices=(A, B))
    heavy_begin = model(9, 1, 1, 1, 1, 1, 1, 1, devices=(A, B))

    assert only(Kind.SPREAD, heavy_end, free(a=8, b=10)) == [spread(a=6, b=2)]
    assert only(Kind.SPREAD, heavy_begin, free(a=10, b=8)) == [spread(a=2, b=6)]


def test_a_spread_that_just_fits_is_found():
    assert only(Kind.SPREAD, model(3, 3, 3, 3, 3, devices=(A, B, C)), free(a=3, b=6, c=6)) == [
        spread(a=1, b=2, c=2)
    ]


def test_a_spread_uses_the_fewest_devices_with_most_free_in_the_engines_order():
    shape = model(*[1] * 8, devices=(A, B, C, D))

    assert only(Kind.SPREAD, shape, free(a=4, b=2, c=3, d=4)) == [spread(a=4, d=4)]
    assert only(Kind.SPREAD, shape, free(a=3, b=2, c=4, d=3)) == [spread(a=2, c=4, d=2)]


def test_one_spread_is_made_for_now_and_one_for_when_others_are_gone():
    shape = model(*[1] * 6, devices=(A, B, C))

    assert only(Kind.SPREAD, shape, free(a=4, b=2, c=0)) == [spread(a=4, b=2)]
    assert only(Kind.SPREAD, shape, free(a=4, b=2, c=0), free(a=4, b=2, c=5)) == [
        spread(a=4, b=2),
        spread(a=3, c=3),
    ]
    assert only(Kind.SPREAD, shape, free(a=1, b=2, c=0), free(a=1, b=3, c=3)) == [spread(b=3, c=3)]


def test_what_the_first_device_holds_besides_may_make_another_the_first():
    shape = model(1, 1, 1, 1, devices=(A, B, C), first_device_fixed=(5,))

    assert only(Kind.SPREAD, shape, free(a=3, b=7, c=2)) == [spread(b=2, c=2)]


def test_the_first_device_has_a_layer_however_small_its_share():
    shape = model(1, 40, devices=(A, B), first_device_fixed=(5,))

    assert only(Kind.SPREAD, shape, free(a=6, b=42)) == [spread(a=1, b=1)]


def test_a_device_that_others_have_overdrawn_has_no_share():
    shape = model(*[1] * 6, devices=(A, B, C, D), first_device_fixed=(5,))

    assert only(Kind.SPREAD, shape, free(a=5, b=11, c=-10, d=3)) == [spread(b=5, d=1)]


def test_where_nothing_is_free_what_takes_nothing_can_still_be_spread():
    assert only(Kind.SPREAD, model(0, 0, devices=(A, B)), free(a=0, b=0)) == [spread(a=1, b=1)]


def test_what_each_device_holds_besides_shifts_a_spread():
    shape = model(*[1] * 6, devices=(A, B), device_fixed=2, device_compute=(1,))

    assert only(Kind.SPREAD, shape, free(a=4, b=8)) == [spread(a=1, b=5)]


def test_a_spread_has_room_for_what_pipelining_takes_of_each_device():
    shape = model(1, 1, 1, 1, devices=(A, B), device_compute=(1,), spread_compute=((3,), (7,)))

    assert offered(shape, free(a=5, b=5, host=6)) == [
        [whole(A, 4), whole(B, 4)],
        *[[partial(a=count)] for count in (3, 2, 1)],
        [ON_HOST],
    ]
    assert only(Kind.SPREAD, shape, free(a=5, b=5, host=7)) == [spread(a=2, b=2)]
    assert only(Kind.SPREAD, shape, free(a=5, b=4, host=7)) == []


def test_a_device_that_cannot_hold_what_each_holds_besides_gets_no_layer():
    shape = model(1, 1, 1, 1, devices=(A, B, C), device_fixed=3)

    assert only(Kind.SPREAD, shape, free(a=5, b=3, c=5)) == [spread(a=2, c=2)]


def test_a_partial_placement_begins_with_the_most_layers_that_fit_with_others_gone():
    shape = model(2, 2, 2, 2, devices=(A, B))

    assert offered(shape, free(a=1, b=2), free(a=2, b=4)) == [
        [partial(a=1, b=2)],
        [partial(b=2)],
        [partial(b=1)],
        [ON_HOST],
    ]


def test_a_partial_placement_fits_the_host_as_well():
    shape = model(2, 2, 2, 2, mapped=(9, 7, 5, 3, 1))

    assert offered(shape, free(a=6, host=5)) == [[partial(a=3)], [partial(a=2)]]


def test_a_host_that_is_overdrawn_takes_what_needs_nothing_of_it():
    assert only(Kind.SPREAD, model(1, 1, devices=(A, B)), free(a=1, b=1, host=-1)) == [
        spread(a=1, b=1)
    ]


def test_a_host_that_takes_less_with_fewer_layers_on_devices_is_found():
    shape = model(2, 2, 2, 2, mapped=(2, 2, 2, 9, 1))

    assert offered(shape, free(a=6, host=5)) == [[partial(a=2)], [partial(a=1)], [ON_HOST]]


def test_files_that_stay_mapped_make_room_on_the_host():
    shape = model(1, mapped=(10, 8))

    assert offered(shape, free(a=1, host=6)) == []
    assert offered(shape, free(a=1, host=6), mapped={FILE: 2}) == [[whole(A, 1)]]
    assert offered(shape, free(a=1, host=6), mapped_roomy={FILE: 4}) == [[whole(A, 1)], [ON_HOST]]
    assert best(shape, free(a=0, host=6)) is None
    assert best(shape, free(a=0, host=6), {FILE: 4}) is not None


def test_files_that_stay_mapped_make_room_beside_layers_on_devices():
    shape = model(1, 1, 1, 1, devices=(A, B), mapped=(9, 9, 9, 8, 7))

    room = free(a=2, b=2, host=4)
    assert offered(shape, room, mapped={FILE: 3}) == [[spread(a=2, b=2)]]
    assert offered(shape, room, mapped={FILE: 4}) == [[spread(a=2, b=2)], [partial(a=2, b=1)]]
    assert offered(shape, room, mapped={FILE: 2}) == []


def test_a_measured_figure_rules_a_placement_out():
    shape = model(
        1, 1, 1, 1, devices=(A, B), measured=((spread(a=2, b=2), (Need(((A, 9), (B, 9))),)),)
    )

    assert only(Kind.SPREAD, shape, free(a=3, b=3)) == []


def test_tiers_are_made_one_by_one():
    shape = model(*[1] * 100_000, mapped=(0,) * 100_001)

    assert [t.kind for t in islice(tiers(shape, {}, {}), 2)] == [Kind.WHOLE, Kind.PARTIAL]


# The scenarios --------------------------------------------------------------------------


def gguf(blocks: int, block: int, output: int, cache, **parts):
    """Every block alike; what the host still maps is the layers that it computes."""
    weights = (*[block] * blocks, output)
    mapped = tuple(sum(weights[: blocks + 1 - n]) for n in range(blocks + 2))
    return model(*weights, cache=cache, mapped=mapped, **parts)


def test_scenario_8_the_gpu_with_its_idle_models_gone_comes_before_the_host():
    shape = gguf(32, GIB // 4, GIB // 2, cache=(GIB // 64,))
    now, later = free(a=2 * GIB, host=64 * GIB), free(a=24 * GIB, host=64 * GIB)

    first = next(tiers(shape, now, later))

    assert first.placements == (whole(A, 33),)
    assert not fits(need_of(shape, first.placements[0], 0), now)
    assert fits(need_of(shape, first.placements[0], 0), later)
    assert best(shape, later) == first


def test_scenario_3_a_context_is_smaller_where_another_ones_least_is_left_free():
    shape = gguf(31, GIB // 4, GIB // 4, cache=(GIB // 16, GIB // 8, GIB // 4))
    empty = free(a=24 * GIB - 8 * GIB, host=64 * GIB)
    beside = free(a=empty[A] - 4 * GIB, host=64 * GIB)

    assert largest(shape, whole(A, 32), empty) == 2
    assert largest(shape, whole(A, 32), beside) == 1
    assert dict(need_of(shape, whole(A, 32), 1).own)[A] == 12 * GIB


# A device that receives its tensors over a connection ----------------------------------------


def received(*weights: int, cache: int, **parts):
    """Each layer is one tensor."""
    found = model(*weights, cache=(cache,), receiving=(A,), **parts)
    return replace(
        found, layers=tuple(replace(each, largest=each.weights) for each in found.layers)
    )


def test_a_server_needs_room_for_a_second_copy_of_the_largest_tensor_while_it_loads():
    shape = received(10, 30, cache=2)

    need = need_of(shape, whole(A, 2), 0)
    assert (need.own, need.passing) == (((A, 40 + 30),), ((A, 30 - 4),))
    assert loaded(need) == Need(((A, 40 + 4),))
    assert only(Kind.WHOLE, shape, free(a=70)) == [whole(A, 2)]
    assert only(Kind.WHOLE, shape, free(a=69)) == []


def test_caches_that_are_larger_than_that_take_its_place():
    need = need_of(received(10, 30, cache=20), whole(A, 2), 0)

    assert need == Need(((A, 40 + 40),))


def test_a_spread_leaves_each_server_room_for_the_copy_of_what_it_gets():
    shape = replace(received(10, 10, 10, 10, 40, cache=0, devices=(A, B)), receiving=(A, B))

    assert only(Kind.SPREAD, shape, free(a=50, b=80)) == [spread(a=4, b=1)]
    assert only(Kind.SPREAD, shape, free(a=49, b=79)) == []


def test_a_copy_that_a_cache_makes_room_for_is_no_reason_to_refuse():
    """Found by random events: the copy was taken off each device's room whole, though caches and
    compute take its place."""
    shape = replace(
        received(1, 4, 1, 2, cache=1, devices=(A, B), device_compute=(1,)), receiving=(A, B)
    )

    room = free(a=8, b=6)
    assert next(tiers(shape, room, room)).placements == (partial(a=1, b=2),)
