"""L1, L2, L6: what a placement takes, whether that fits, and the largest context that does."""

from __future__ import annotations

import pytest

from scheduler.core.placing import clipped, context_at, fits, largest, missing, need_of, steps
from scheduler.core.sizes import FIXED, HOST, ON_HOST, FileId, FixedShape, Need

from .shapes import FILE, A, B, C, free, model, partial, spread, whole

# What a placement takes -----------------------------------------------------------------

UNEVEN = model(1, 20, 300, 4000, 50000, devices=(A, B, C), mapped=(9, 8, 7, 6, 5, 4))


def sizes(need: Need) -> dict:
    assert len(dict(need.own)) == len(need.own)
    return dict(need.own)


def test_the_devices_get_the_last_layers_in_runs_and_the_first_device_the_earlier_ones():
    need = need_of(UNEVEN, spread(a=2, b=1, c=2), 0)

    assert sizes(need) == {A: 21, B: 300, C: 54000}


def test_of_a_partial_placement_the_last_layers_are_on_devices_and_the_rest_is_the_hosts():
    need = need_of(UNEVEN, partial(a=1, c=2), 0)

    assert sizes(need) == {A: 300, C: 54000}
    assert need.mapped == ((FILE, 6),)


def test_a_device_without_a_layer_holds_nothing():
    shape = model(1, 1, devices=(A, B), device_compute=(5,), device_fixed=7)

    assert sizes(need_of(shape, spread(a=0, b=2), 0)) == {B: 14}


def test_each_device_computes_and_has_its_driver_and_the_first_has_the_projector():
    shape = model(
        1, 1, 1, devices=(A, B), device_compute=(10,), device_fixed=100, first_device_fixed=(1000,)
    )

    assert sizes(need_of(shape, spread(a=1, b=2), 0)) == {A: 1111, B: 112}
    assert sizes(need_of(shape, spread(a=0, b=3), 0)) == {B: 1113}
    assert sizes(need_of(shape, ON_HOST, 0)) == {HOST: 1000}


def test_the_host_keeps_the_cache_of_its_layers_and_computes_more_when_it_computes_layers():
    shape = model(0, 0, 0, cache=(2, 40), host_compute=((100, 300), (500, 700)), host_fixed=1000)

    assert sizes(need_of(shape, whole(A, 3), 0)) == {A: 6, HOST: 1100}
    assert sizes(need_of(shape, whole(A, 3), 1)) == {A: 120, HOST: 1300}
    assert sizes(need_of(shape, partial(a=1), 0)) == {A: 2, HOST: 1504}
    assert sizes(need_of(shape, partial(a=1), 1)) == {A: 40, HOST: 1780}
    assert sizes(need_of(shape, ON_HOST, 1)) == {HOST: 1820}


def test_the_first_device_holds_a_draft_model_that_grows_with_the_context():
    shape = model(1, 1, cache=(0, 0), devices=(A, B), first_device_fixed=(5, 9))

    assert sizes(need_of(shape, spread(a=1, b=1), 0)) == {A: 6, B: 1}
    assert sizes(need_of(shape, spread(a=1, b=1), 1)) == {A: 10, B: 1}
    assert sizes(need_of(shape, ON_HOST, 1)) == {HOST: 9}


def test_where_a_model_is_spread_pipelining_takes_its_own_share_and_nowhere_else():
    shape = model(
        0,
        0,
        0,
        devices=(A, B),
        device_compute=(10,),
        host_compute=((20,), (30,)),
        spread_compute=((40,), (50,)),
    )

    assert sizes(need_of(shape, whole(A, 3), 0)) == {A: 10, HOST: 20}
    assert sizes(need_of(shape, spread(a=1, b=2), 0)) == {A: 40, B: 40, HOST: 50}
    assert sizes(need_of(shape, partial(a=1, b=1), 0)) == {A: 10, B: 10, HOST: 30}


def test_a_host_that_maps_no_file_holds_the_weights_itself():
    shape = model(1, 2, mapped=(3, 1, 0), file=FileId(""))

    assert need_of(shape, ON_HOST, 0) == Need(((HOST, 3),))
    assert need_of(shape, partial(a=1), 0) == Need(((A, 2), (HOST, 1)))


def test_what_was_measured_wins_over_the_sum():
    measured = Need(((A, 77),))
    shape = model(1, 2, cache=(0, 0), measured=((whole(A, 2), (measured, Need(((A, 99),)))),))

    assert need_of(shape, whole(A, 2), 0) == measured
    assert need_of(shape, whole(A, 2), 1) == Need(((A, 99),))
    assert need_of(shape, partial(a=1), 0) == Need(((A, 2),))


FIXED_SHAPE = FixedShape(((4096, Need(((A, 10), (HOST, 1)))), (8192, Need(((A, 20),)))))


def test_a_fixed_shape_takes_what_it_takes():
    assert need_of(FIXED_SHAPE, FIXED, 1) == Need(((A, 20),))


def test_a_step_is_one_of_the_contexts():
    assert (steps(FIXED_SHAPE), context_at(FIXED_SHAPE, 1)) == (2, 8192)
    assert (steps(model(1, cache=(1, 1, 1))), context_at(model(1, cache=(1, 1, 1)), 2)) == (
        3,
        16384,
    )


# Whether it fits ------------------------------------------------------------------------

NEED = Need(((A, 10), (HOST, 5)), ((FILE, 100),))


@pytest.mark.parametrize(
    ("room", "short"),
    [
        (free(a=10, host=105), ()),
        (free(a=9, host=105), ((A, 1),)),
        (free(a=7, host=100), ((A, 3), (HOST, 5))),
        (free(a=-4, host=105), ((A, 14),)),
        (free(host=105), ()),
        (free(a=10), ()),
        ({}, ()),
    ],
)
def test_it_fits_where_nothing_is_missing_and_what_never_reported_limits_nothing(room, short):
    assert missing(NEED, room) == short
    assert fits(NEED, room) is (not short)


@pytest.mark.parametrize(("held", "short"), [(0, 60), (40, 20), (60, 0), (100, 0), (400, 0)])
def test_a_file_that_is_mapped_already_costs_only_the_more(held, short):
    room = free(a=10, host=45)

    assert missing(NEED, room, {FILE: held}) == (((HOST, short),) if short else ())
    assert fits(NEED, room, {FILE: held}) is (not short)


def test_another_file_that_is_mapped_saves_nothing():
    assert not fits(NEED, free(host=45), {FileId("other.gguf"): 100})


def test_mapped_bytes_count_on_the_host_when_it_holds_nothing_else():
    assert missing(Need((), ((FILE, 10),)), free(host=4)) == ((HOST, 6),)


def test_the_largest_context_that_fits_is_looked_for_from_the_top():
    shape = model(10, cache=(1, 2, 4, 8))

    assert largest(shape, whole(A, 1), free(a=18)) == 3
    assert largest(shape, whole(A, 1), free(a=17)) == 2
    assert largest(shape, whole(A, 1), free(a=11)) == 0
    assert largest(shape, whole(A, 1), free(a=3)) == 0


def test_a_larger_context_that_takes_less_is_found():
    shape = FixedShape(((1, Need(((A, 4),))), (2, Need(((A, 9),))), (3, Need(((A, 5),)))))

    assert largest(shape, FIXED, free(a=5)) == 2


def test_the_largest_context_may_rest_on_what_others_map():
    shape = model(0, cache=(1, 5), mapped=(10, 0))

    assert largest(shape, ON_HOST, free(host=11)) == 0
    assert largest(shape, ON_HOST, free(host=11), {FILE: 4}) == 1


@pytest.mark.parametrize(
    ("most", "own", "mapped"),
    [
        (free(a=10, host=105), ((A, 10), (HOST, 5)), 100),
        (free(a=8, host=500), ((A, 8), (HOST, 5)), 100),
        (free(a=0, host=50), ((HOST, 5),), 45),
        (free(a=10, host=5), ((A, 10), (HOST, 5)), 0),
        (free(a=10, host=3), ((A, 10), (HOST, 3)), 0),
        ({}, ((A, 10), (HOST, 5)), 100),
    ],
)
def test_a_need_clipped_to_a_machine_takes_all_of_what_it_is_too_large_for(most, own, mapped):
    assert clipped(NEED, most) == Need(own, ((FILE, mapped),) if mapped else ())
