"""What may pass for figures."""

from __future__ import annotations

import pytest

from scheduler.measuring.figures import (
    MOST_BYTES,
    DeviceFigures,
    Nonsense,
    checked,
    merged,
)


@pytest.mark.parametrize(
    "figures",
    [
        [],
        [DeviceFigures("CUDA0", -1)],
        [DeviceFigures("CUDA0", MOST_BYTES + 1)],
        [DeviceFigures("CUDA0", 1, weights=-1)],
        [DeviceFigures("", 1)],
        [DeviceFigures("a device", 1)],
        [DeviceFigures("0CUDA", 1)],
        [DeviceFigures("x" * 65, 1)],
        [DeviceFigures("CUDA0", 1), DeviceFigures("CUDA0", 2)],
        [DeviceFigures(f"CUDA{number}", 1) for number in range(65)],
    ],
)
def test_nonsense_is_refused(figures: list[DeviceFigures]) -> None:
    with pytest.raises(Nonsense):
        checked(figures)


def test_a_device_that_nothing_is_on_is_left_out_but_the_host_never() -> None:
    kept = checked([DeviceFigures("RPC0"), DeviceFigures("Host")])

    assert [each.device for each in kept] == ["Host"]


def test_rows_of_one_device_are_added_up() -> None:
    assert merged([DeviceFigures("Host", 1, 2, 3, 4), DeviceFigures("Host", 10, 20, 30, 40)]) == (
        DeviceFigures("Host", 11, 22, 33, 44),
    )
