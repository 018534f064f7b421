"""All devices together: who tells of which, and what may be used of each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.core.sizes import DeviceId, DeviceReading
from scheduler.runtime.devices.device import Device
from scheduler.runtime.devices.limits import MIB, Limits
from scheduler.runtime.devices.readings import Devices

GIB = 1024 * MIB
LISTED = """\
Available devices:
  CUDA0: GeForce (8192 MiB, 8000 MiB free)
  ROCm0: Radeon (16384 MiB, 12000 MiB free)
"""


class Nvidia:
    """Stands where NVML is."""

    def __init__(self) -> None:
        self.devices: tuple[Device, ...] = ()
        self.ours: frozenset[int] = frozenset()

    @property
    def knows_gpus(self) -> bool:
        return bool(self.devices)

    def read(self, ours):
        self.ours = ours
        return self.devices

    def close(self):
        pass


class Setup:
    def __init__(self, folder: Path) -> None:
        engine = folder / "llama-server"
        self.asked = folder / "asked"
        engine.write_text(
            f"#!/bin/sh\necho cuda=${{CUDA_VISIBLE_DEVICES-unset}} > {self.asked}\n"
            f"cat <<'END'\n{LISTED}END\n"
        )
        engine.chmod(0o755)
        self.devices = Devices(lambda: engine, {"PATH": os.environ["PATH"]})
        self.nvidia = self.devices.nvidia = Nvidia()

    def names(self) -> list[str]:
        return [device.reading.device for device in self.devices.read(())]

    def reading(self, name: str) -> DeviceReading:
        (found,) = (
            device.reading for device in self.devices.read(()) if device.reading.device == name
        )
        return found


@pytest.fixture
def setup(tmp_path):
    setup = Setup(tmp_path)
    yield setup
    setup.devices.close()


def test_without_nvml_the_engine_tells_of_nvidias_devices(setup):
    assert setup.names() == ["CUDA0", "ROCm0", "Host"]
    assert setup.reading("CUDA0").total == 8 * GIB
    assert setup.asked.read_text() == "cuda=unset\n"


def test_with_nvml_its_figures_win(setup):
    reading = DeviceReading(DeviceId("CUDA0"), 8 * GIB, 7 * GIB, foreign=GIB)
    setup.nvidia.devices = (Device(reading, "GeForce", "CUDA"),)

    assert setup.names() == ["CUDA0", "ROCm0", "Host"]
    assert setup.reading("CUDA0").free == 7 * GIB
    assert setup.asked.read_text() == "cuda=\n"  # no driver is started for the question


def test_budgets_and_margins_go_with_the_readings(setup):
    setup.devices.limits = Limits.parse("ROCm0=4GiB", "512,Host=1")
    reading = setup.reading("ROCm0")

    assert (reading.budget, reading.margin) == (4 * GIB, 512 * MIB)
    assert (setup.reading("Host").budget, setup.reading("Host").margin) == (None, MIB)


def test_limits_that_match_no_device_are_said_once(setup, caplog):
    setup.devices.limits = Limits.parse("CUDA5=1GiB,ROCm0=99GiB")
    for _ in range(3):
        setup.names()

    assert len(setup.devices.warnings) == 2
    assert len(caplog.records) == 2

    setup.devices.limits = Limits()
    setup.names()
    assert setup.devices.warnings == ()


def test_what_our_children_have_started_is_ours_too(setup):
    setup.devices.read([os.getpid()])

    assert os.getpid() in setup.nvidia.ours
