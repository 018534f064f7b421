"""What the engine says to `--list-devices`."""

from __future__ import annotations

import pytest

from scheduler.runtime.devices.listed import MIB, ListedDevice, devices_in

THREE = """\
ggml_cuda_init: found 1 ROCm devices:
Available devices:
  ROCm0: AMD Radeon RX 7900 XTX (24560 MiB, 24514 MiB free)
  Vulkan0: Intel(R) Arc(tm) A770 Graphics (DG2) (16288 MiB, 14659 MiB free)
  RPC0: 127.0.0.1:50052 (24105 MiB, 24000 MiB free)
"""


def test_each_line_is_a_device():
    assert devices_in(THREE) == (
        ListedDevice("ROCm0", "AMD Radeon RX 7900 XTX", 24560 * MIB, 24514 * MIB),
        ListedDevice("Vulkan0", "Intel(R) Arc(tm) A770 Graphics (DG2)", 16288 * MIB, 14659 * MIB),
        ListedDevice("RPC0", "127.0.0.1:50052", 24105 * MIB, 24000 * MIB),
    )


def test_none_is_none():
    assert devices_in("Available devices:\n  (none)\n") == ()


def test_what_has_no_memory_of_its_own_is_left_out():
    assert devices_in("Available devices:\n  BLAS: OpenBLAS (0 MiB, 0 MiB free)\n") == ()


@pytest.mark.parametrize("said", ["", "error: invalid argument: --list-devices\n"])
def test_no_list_is_an_error_that_says_what_was_said(said):
    with pytest.raises(ValueError, match=said.strip() or "lists no devices"):
        devices_in(said)
