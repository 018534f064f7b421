"""Budgets and margins: read, refused, and applied to a device."""

from __future__ import annotations

import pytest

from scheduler.core.sizes import HOST, DeviceId
from scheduler.runtime.devices.limits import MIB, Limits

CUDA0, CUDA1 = DeviceId("CUDA0"), DeviceId("CUDA1")
GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("20GiB", 20 * GIB),
        ("20 gib", 20 * GIB),
        ("1.5GiB", 1536 * MIB),
        ("500MiB", 500 * MIB),
        ("500MB", 500_000_000),
        ("2GB", 2_000_000_000),
        ("2000000", 2_000_000),
        ("2000000 bytes", 2_000_000),
        ("2000000B", 2_000_000),
        ("50%", 12 * GIB),
        ("12.5 %", 3 * GIB),
        ("100%", 24 * GIB),
        ("0", 0),
        ("0%", 0),
    ],
)
def test_a_budget_is_read(said, size):
    assert Limits.parse(f"CUDA0={said}").budget(CUDA0, 24 * GIB) == size


def test_each_device_has_its_own_budget():
    limits = Limits.parse(" CUDA0 = 20GiB , host=16GiB,")

    assert limits.budget(CUDA0, 24 * GIB) == 20 * GIB
    assert limits.budget(HOST, 64 * GIB) == 16 * GIB
    assert limits.budget(CUDA1, 24 * GIB) is None


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("CUDA0=-1GiB", "negative: give 0 or more"),
        ("CUDA0=-5%", "negative"),
        ("CUDA0=lots", "cannot be read: write a number with MiB"),
        ("CUDA0=20KiB", "cannot be read"),
        ("CUDA0=1e9", "cannot be read"),
        ("CUDA0=", "cannot be read"),
        ("CUDA0=1" + "0" * 30, "cannot be read"),
        ("CUDA0=٣GiB", "cannot be read"),
        ("CUDA0=inf", "cannot be read"),
        ("20GiB", "names no device: write it as in CUDA0=20GiB"),
        ("=20GiB", "names no device"),
        ("CUDA 0=20GiB", "names no device"),
        ("CUDA0=1GiB,cuda0=2GiB", "given twice: give one"),
        ("CUDA0=101%", "more than the whole device"),
        ("CUDA0=20", "less than 1 MiB: give a unit"),
        ("CUDA0=0.5MiB", "less than 1 MiB"),
    ],
)
def test_a_budget_that_cannot_be_meant_is_refused_with_what_to_do(said, remedy):
    with pytest.raises(ValueError, match=remedy):
        Limits.parse(said)


def test_a_budget_above_the_device_warns_and_the_device_holds():
    limits = Limits.parse("CUDA0=40GiB")

    assert limits.budget(CUDA0, 24 * GIB) == 24 * GIB
    assert limits.warnings({CUDA0: 24 * GIB}) == (
        "the budget of CUDA0 (40,960 MiB) is larger than the device: 24,576 MiB count",
    )


def test_a_budget_for_a_device_that_is_not_there_warns():
    limits = Limits.parse("CUDA7=4GiB")

    assert limits.warnings({CUDA0: 24 * GIB, HOST: GIB}) == (
        "there is no device CUDA7 for which a budget is set; there are CUDA0, Host",
    )
    assert limits.warnings({DeviceId("CUDA7"): 24 * GIB}) == ()


def test_budgets_within_the_devices_warn_of_nothing():
    assert Limits.parse("CUDA0=20GiB,Host=50%", "512").warnings({CUDA0: 24 * GIB, HOST: GIB}) == ()


def test_without_a_margin_a_gpu_keeps_a_gibibyte_and_the_host_a_sixteenth():
    limits = Limits.parse()

    assert limits.margin(CUDA0, 24 * GIB) == GIB
    assert limits.margin(DeviceId("RPC0"), 24 * GIB) == GIB
    assert limits.margin(HOST, 64 * GIB) == 4 * GIB


def test_a_bare_margin_is_mebibytes_for_each_device():
    limits = Limits.parse(margins="512")

    assert [limits.margin(one, 64 * GIB) for one in (CUDA0, CUDA1, HOST)] == [512 * MIB] * 3


def test_named_margins_leave_the_defaults_to_the_others():
    limits = Limits.parse(margins="CUDA0=512, Host=2048")

    assert limits.margin(CUDA0, 24 * GIB) == 512 * MIB
    assert limits.margin(CUDA1, 24 * GIB) == GIB
    assert limits.margin(HOST, 64 * GIB) == 2 * GIB


def test_one_number_beside_named_margins_is_for_the_others():
    limits = Limits.parse(margins="256,CUDA0=0,Host=10%")

    assert limits.margin(CUDA0, 24 * GIB) == 0
    assert limits.margin(CUDA1, 24 * GIB) == 256 * MIB
    assert limits.margin(HOST, 10 * GIB) == GIB


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("-1", "negative"),
        ("much", "cannot be read"),
        ("1,2", "two numbers without a device"),
        ("CUDA0=1,CUDA0=2", "given twice"),
        ("CUDA0=-1", "negative"),
    ],
)
def test_a_margin_that_cannot_be_meant_is_refused_with_what_to_do(said, remedy):
    with pytest.raises(ValueError, match=remedy):
        Limits.parse(margins=said)


def test_no_margin_is_above_the_device():
    assert Limits.parse(margins="99999").margin(CUDA0, GIB) == GIB
    assert Limits.parse().margin(CUDA0, 512 * MIB) == 512 * MIB
