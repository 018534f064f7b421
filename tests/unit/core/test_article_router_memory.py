"""The article on llama.cpp's router: its formulas of memory, each with numbers.

    external  = max(0, total - free - self - tracked)
    available = total - external - held
    deficit   = self - (available - margin), where that is positive

`self` is what the reporter holds, `tracked` what the others do. Corral reads devices itself, so
that there is no reporter, and both are what is held.
"""

from __future__ import annotations

import pytest

from scheduler.core.ledger import Ledger
from scheduler.core.sizes import DeviceId, DeviceReading, Need

MIB, GIB = 1 << 20, 1 << 30
GPU, OTHER = DeviceId("CUDA0"), DeviceId("CUDA1")


def on_gpu(size: int) -> Need:
    return Need(((GPU, size),))


def ledger(total: int, free: int, held: list[int], margin: int = 0) -> Ledger:
    found = Ledger(5.0)
    for number, size in enumerate(held):
        found.hold(number, on_gpu(size))
    found.read((DeviceReading(GPU, total, free, margin=margin),), (), 0.0)
    return found


@pytest.mark.parametrize(
    ("total", "free", "held", "external"),
    [
        (24, 24, [], 0),
        (24, 20, [], 4),  # a measuring child: self is 0
        (24, 9, [7, 5], 3),  # self 7, tracked 5: 24 - 9 - 7 - 5
        (24, 14, [7, 5], 0),  # never negative: 24 - 14 - 7 - 5 = -2
    ],
)
def test_calibrate_external_is_what_neither_the_reporter_nor_the_tracked_hold(
    total, free, held, external
):
    found = ledger(total * GIB, free * GIB, [size * GIB for size in held])

    assert found.devices[GPU].external == external * GIB


def test_calibrated_again_and_again_nothing_is_counted_twice():
    """Else each load would make the router more careful than it need be."""
    found = ledger(24 * GIB, 9 * GIB, [7 * GIB, 5 * GIB])
    for now in range(1, 4):
        found.read((DeviceReading(GPU, 24 * GIB, 9 * GIB),), (), float(now))

    assert found.devices[GPU].external == 3 * GIB


def test_available_is_the_total_less_the_external_and_the_held():
    """24 - 3 - 7 - 5. Corral takes the margin off here already, the article in the deficit."""
    free, _ = ledger(24 * GIB, 9 * GIB, [7 * GIB, 5 * GIB]).free()

    assert free[GPU] == 9 * GIB


@pytest.mark.parametrize(("size", "short"), [(8, 0), (9, 1), (12, 4)])
def test_a_deficit_is_what_is_missing_with_the_margin_kept(size, short):
    """Available 9 GiB, margin 1,024 MiB."""
    found = ledger(24 * GIB, 9 * GIB, [7 * GIB, 5 * GIB], margin=1024 * MIB)

    assert dict(found.deficit(on_gpu(size * GIB), ())) == ({GPU: short * GIB} if short else {})


def test_a_device_that_never_reported_is_not_limited():
    found = ledger(24 * GIB, 9 * GIB, [])

    assert found.deficit(Need(((OTHER, 1 << 60),)), ()) == ()


def test_one_of_40_gb_and_one_of_less_than_one_are_not_the_same_one():
    """The article's 70B and 0.6B: one instance each by count, and not by memory."""
    found = ledger(48 * GIB, 48 * GIB, [40 * GIB])

    assert found.deficit(on_gpu(GIB), ()) == ()
    assert found.deficit(on_gpu(40 * GIB), ()) == ((GPU, 32 * GIB),)
