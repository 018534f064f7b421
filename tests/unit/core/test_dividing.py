"""Which layers go to which device: runs in the engine's order."""

from __future__ import annotations

from itertools import accumulate, product

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.dividing import divide, most_layers, sets_of_devices

EVEN = [0, 10, 20, 30, 40]


def test_at_the_most_so_many_layers_fit_counted_from_the_last():
    assert most_layers(EVEN, [25], 0) == 2
    assert most_layers(EVEN, [15, 25], 0) == 3
    assert most_layers([0, 90, 100, 110], [50, 50], 0) == 2
    assert most_layers(EVEN, [5, -20], 0) == 0
    assert most_layers(EVEN, [], 0) == 0


def test_what_the_first_device_holds_besides_leaves_less_for_layers():
    assert most_layers(EVEN, [25], 10) == 1
    assert most_layers(EVEN, [25, 20], 10) == 3
    assert most_layers(EVEN, [5, 30], 10) == 2
    assert most_layers(EVEN, [5], 10) == 0


def test_a_first_device_may_take_a_small_layer_where_it_cannot_take_the_one_before():
    uneven = [0, 90, 110, 120, 130]

    assert most_layers(uneven, [55, 45], 45) == 2
    assert most_layers(uneven, [65, 45], 45) == 3
    assert divide(uneven, 2, [10, 45], [1, 1]) == (1, 1)


def test_layers_are_divided_from_the_start_on_in_proportion():
    assert divide(EVEN, 0, [40, 40], [1, 1]) == (2, 2)
    assert divide(EVEN, 2, [40, 40], [1, 1]) == (1, 1)
    assert divide(EVEN, 0, [40, 40], [1, 3]) == (1, 3)


def test_room_counts_before_proportion():
    assert divide(EVEN, 0, [10, 40], [9, 1]) == (1, 3)
    assert divide(EVEN, 0, [40, 10], [1, 9]) == (3, 1)
    assert divide(EVEN, 0, [10, 20, 10], [1, 1, 1]) == (1, 2, 1)


def test_a_device_without_room_is_passed_over_unless_it_is_the_first():
    assert divide(EVEN, 0, [20, 5, 20], [1, 1, 1]) == (2, 0, 2)
    assert divide(EVEN, 0, [20, -5, 20], [1, 0, 1]) == (2, 0, 2)
    assert divide(EVEN, 0, [5, 40], [1, 1]) is None


def test_what_does_not_fit_is_not_divided():
    assert divide(EVEN, 0, [10, 20], [1, 1]) is None
    assert divide([0, 90, 100], 0, [80, 80], [1, 1]) is None


def test_the_sets_grow_by_the_largest_then_begin_with_each_device():
    assert [list(devices) for devices in sets_of_devices([5, 1, 7], 1)] == [
        [2],
        [0, 2],
        [0, 1, 2],
        [1, 2],
        [2],
    ]
    assert [list(devices) for devices in sets_of_devices([5, 5, 5], 2)] == [
        [0, 1],
        [0, 1, 2],
        [1, 2],
    ]
    assert list(sets_of_devices([5], 2)) == []


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.lists(st.integers(-2, 12), max_size=3),
    st.integers(0, 6),
)
def test_no_other_runs_take_more_layers(layers, rooms, first_fixed):
    ends = list(accumulate(layers, initial=0))

    def fits(counts) -> bool:
        begin, besides = len(layers) - sum(counts), first_fixed
        for count, room in zip(counts, rooms, strict=True):
            if count and ends[begin + count] - ends[begin] + besides > room:
                return False
            begin, besides = begin + count, 0 if count else besides
        return True

    ways = product(range(len(layers) + 1), repeat=len(rooms))
    fitting = [sum(counts) for counts in ways if sum(counts) <= len(layers) and fits(counts)]
    assert most_layers(ends, rooms, first_fixed) == max(fitting)
