"""Two GPUs that a stand-in for the driver's library shows: one falls off the bus, and comes back.

The engine of these tests sees no GPU, so models run on the host all the while: what is shown of a
device does not decide where the engine can put a layer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.asking import whole
from tests.support.gateway import Gateway, gateway
from tests.support.managing import Manager
from tests.support.nvml_stub import GIB, GPU_IS_LOST, NvmlStub, StubGpu
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FIRST = StubGpu("GPU-1", total=24 * GIB, bus=1, percent=35, celsius=61, milliwatts=180_000)
SECOND = StubGpu("GPU-2", total=16 * GIB, bus=2)
FOREIGN = (os.getpid(), 3 * GIB)
"""A process that is none of the gateway's uses this much of the first."""


@pytest.fixture
def stub(tmp_path: Path) -> NvmlStub:
    (tmp_path / "driver").mkdir()
    return NvmlStub(tmp_path / "driver")


@pytest.fixture
def with_gpus(stub: NvmlStub, tmp_path: Path) -> Iterator[Gateway]:
    stub.show(replace(FIRST, compute=(FOREIGN,)), SECOND)
    budget = {"CORRAL_DEVICE_BUDGET": "CUDA1=8GiB"}
    env = stub.environment | budget
    with gateway(tmp_path, env=env, models={"alpha": {"seed": 1}}) as running:
        yield running


def test_a_lost_gpu_keeps_its_last_figures_with_a_warning_and_comes_back(
    with_gpus: Gateway, stub: NvmlStub
) -> None:
    manage = Manager(with_gpus)
    eventually(lambda: manage.device("CUDA1"), "both GPUs are there")

    first, second = manage.device("CUDA0"), manage.device("CUDA1")
    assert (first["total"], first["external"], first["free"]) == (24 * GIB, 3 * GIB, 21 * GIB)
    assert (first["utilisation"], first["temperature"], first["power"]) == (35, 61, 180.0)
    assert first["available"] == 20 * GIB  # a margin of 1 GiB stays free
    assert (second["budget"], second["available"]) == (8 * GIB, 8 * GIB)
    assert whole(with_gpus.client.chat("alpha"))
    assert with_gpus.instance_of("alpha")["placement"] == "host"

    stub.show(replace(FIRST, error=GPU_IS_LOST), SECOND)
    lost = eventually(lambda: _warned(manage), "it is warned of the lost one")
    assert (lost["total"], lost["external"]) == (24 * GIB, 3 * GIB)
    assert lost["stale"] >= 0
    assert not manage.device("CUDA1")["warning"]
    assert whole(with_gpus.client.chat("alpha"))

    stub.show(FIRST, SECOND)
    eventually(lambda: _is_back(manage), "it is back, and nobody else is on it")
    assert len(with_gpus.processes("scheduler")) == 1


def test_a_driver_that_fails_altogether_is_no_reason_to_stop(
    with_gpus: Gateway, stub: NvmlStub
) -> None:
    manage = Manager(with_gpus)
    eventually(lambda: manage.device("CUDA1"), "both GPUs are there")
    scheduler = with_gpus.pid("scheduler")

    stub.show(replace(FIRST, error=GPU_IS_LOST), replace(SECOND, error=GPU_IS_LOST))
    eventually(lambda: _warned(manage), "it is warned")
    assert whole(with_gpus.client.chat("alpha"))
    assert with_gpus.pid("scheduler") == scheduler
    assert manage.device("Host")["stale"] is None


def _warned(manage: Manager) -> dict[str, object]:
    device = manage.device("CUDA0")
    return device if device["warning"] else {}


def _is_back(manage: Manager) -> bool:
    device = manage.device("CUDA0")
    return not device["warning"] and device["stale"] is None and device["external"] == 0
