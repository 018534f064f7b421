"""The real pynvml on a stand-in for the driver's library: GPUs that are used, lost, and lie."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml_stub import (
    DRIVER_NOT_LOADED,
    GIB,
    GPU_IS_LOST,
    NOT_AVAILABLE,
    UNKNOWN,
    NvmlStub,
    StubGpu,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OURS, THEIRS = os.getpid(), os.getppid()
"""Processes that exist: a list with others is not trusted."""
ONE = StubGpu("GPU-aaaa", bus=1)
TWO = StubGpu("GPU-bbbb", bus=2, total=48 * GIB)


class Reader:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self.knows = False

    def read(self, *ours: int) -> dict[str, Any]:
        """Each device by its name, its reading's fields beneath its own."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(list(ours)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        answer = json.loads(line)
        self.knows = answer["knows"]
        return {one["reading"]["device"]: {**one["reading"], **one} for one in answer["devices"]}

    @property
    def warnings(self) -> list[str]:
        lines = self._log.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith("WARNING ")]


@contextlib.contextmanager
def reading(folder: Path, **environment: str) -> Iterator[Reader]:
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.nvml_reader"],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:
        yield Reader(process, log)
        assert process.stdin
        process.stdin.close()
        assert process.wait(20) == 0, log.read_text()


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    return NvmlStub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(stub, tmp_path):
    stub.show(ONE, TWO)
    with reading(tmp_path, **stub.environment) as reader:
        yield reader


def test_two_gpus_and_what_pages_show_of_them(stub, gpus):
    stub.show(
        StubGpu("GPU-aaaa", bus=1, compute=((OURS, 5 * GIB), (THEIRS, GIB)), percent=37),
        StubGpu("GPU-bbbb", bus=2, total=48 * GIB, celsius=71, milliwatts=250_500, name="H200"),
    )

    one, two = gpus.read(OURS).values()

    assert (one["device"], one["total"], one["free"]) == ("CUDA0", 24 * GIB, 18 * GIB)
    assert one["foreign"] == GIB
    assert one["processes"] == sorted([[OURS, 5 * GIB], [THEIRS, GIB]])
    assert (one["utilisation"], one["kind"], one["stale"], one["warning"]) == (37, "CUDA", None, "")
    assert (two["device"], two["free"], two["foreign"]) == ("CUDA1", 48 * GIB, 0)
    assert (two["name"], two["temperature"], two["power"]) == ("H200", 71, 250.5)
    assert gpus.knows
    assert gpus.warnings == []


def test_a_foreign_process_takes_memory_and_leaves(stub, gpus):
    assert gpus.read(OURS)["CUDA0"]["foreign"] == 0

    stub.show(StubGpu("GPU-aaaa", compute=((THEIRS, 9 * GIB),)), TWO)
    taken = gpus.read(OURS)["CUDA0"]
    assert (taken["free"], taken["foreign"]) == (15 * GIB, 9 * GIB)

    stub.show(ONE, TWO)
    left = gpus.read(OURS)["CUDA0"]
    assert (left["free"], left["foreign"]) == (24 * GIB, 0)


def test_one_that_draws_and_computes_counts_once(stub, gpus):
    both = ((THEIRS, 2 * GIB),)
    stub.show(StubGpu("GPU-aaaa", compute=both, graphics=both), TWO)

    device = gpus.read(OURS)["CUDA0"]

    assert (device["foreign"], device["processes"]) == (2 * GIB, [[THEIRS, 2 * GIB]])


def test_what_the_driver_reserves_is_not_free_and_not_ours(stub, gpus):
    stub.show(StubGpu("GPU-aaaa", reserved=GIB, compute=((OURS, 5 * GIB),)), TWO)

    device = gpus.read(OURS)["CUDA0"]

    assert (device["total"], device["free"], device["foreign"]) == (24 * GIB, 18 * GIB, GIB)


def test_an_old_driver_does_not_tell_what_it_reserves(stub, gpus):
    stub.show(StubGpu("GPU-aaaa", v2=False, used=5 * GIB, compute=((OURS, 5 * GIB),)), TWO)

    device = gpus.read(OURS)["CUDA0"]

    assert (device["total"], device["free"], device["foreign"]) == (24 * GIB, 19 * GIB, 0)


@pytest.mark.parametrize(
    "gpu",
    [
        StubGpu("GPU-aaaa", used=5 * GIB, compute=((OURS, NOT_AVAILABLE),)),
        StubGpu("GPU-aaaa", used=5 * GIB, compute=((OURS, 25 * GIB),)),
        StubGpu("GPU-aaaa", used=5 * GIB, lists=False),
        StubGpu("GPU-aaaa", used=5 * GIB),
    ],
    ids=["bytes not available", "more than there is", "no list", "an empty list"],
)
def test_without_trustworthy_processes_foreign_is_not_known(stub, gpus, gpu):
    stub.show(gpu, TWO)

    device = gpus.read(OURS)["CUDA0"]

    assert (device["free"], device["foreign"]) == (19 * GIB, None)
    assert gpus.warnings == []  # that is how some drivers and containers are


def test_a_gpu_falls_off_the_bus_and_comes_back(stub, gpus):
    stub.show(StubGpu("GPU-aaaa", compute=((THEIRS, GIB),)), TWO)
    gpus.read()
    lost = StubGpu("GPU-aaaa", error=GPU_IS_LOST)
    stub.show(lost, StubGpu("GPU-bbbb", bus=2, total=48 * GIB, compute=((THEIRS, GIB),)))
    for _ in range(5):
        one, two = gpus.read().values()

    assert (one["device"], one["free"], one["foreign"]) == ("CUDA0", 23 * GIB, GIB)
    assert one["stale"] > 0
    assert "lost" in one["warning"].lower()
    assert one["processes"] is None
    assert (two["device"], two["free"], two["stale"]) == ("CUDA1", 47 * GIB, None)
    assert len(gpus.warnings) == 1

    stub.show(ONE, TWO)
    gpus.read()  # opens the library anew
    one, two = gpus.read().values()
    assert (one["free"], one["stale"], one["warning"]) == (24 * GIB, None, "")
    assert two["stale"] is None
    assert len(gpus.warnings) == 1


def test_a_gpu_that_is_listed_no_more_keeps_its_name_and_figures(stub, gpus):
    gpus.read()
    stub.show(StubGpu("GPU-aaaa", error=GPU_IS_LOST), TWO)
    gpus.read()
    stub.show(TWO)
    for _ in range(3):
        devices = gpus.read()

    assert devices["CUDA0"]["stale"] > 0
    assert devices["CUDA0"]["total"] == 24 * GIB
    assert (devices["CUDA1"]["total"], devices["CUDA1"]["stale"]) == (48 * GIB, None)


@pytest.mark.parametrize(
    "nonsense",
    [{"free": 25 * GIB}, {"total": 0, "free": 0}, {"total": 1 << 60}, {"free": NOT_AVAILABLE}],
)
def test_figures_that_cannot_be_true_leave_the_last_known(stub, gpus, nonsense):
    gpus.read()
    stub.show(StubGpu("GPU-aaaa", **nonsense), TWO)
    for _ in range(3):
        device = gpus.read()["CUDA0"]

    assert (device["total"], device["free"]) == (24 * GIB, 24 * GIB)
    assert device["stale"] > 0
    assert len(gpus.warnings) == 1
    assert "cannot be true" in gpus.warnings[0]

    stub.show(ONE, TWO)
    assert gpus.read()["CUDA0"]["stale"] is None


def test_readings_beside_memory_that_make_no_sense_are_not_shown(stub, gpus):
    stub.show(StubGpu("GPU-aaaa", percent=4000, celsius=9999, milliwatts=0), TWO)

    device = gpus.read()["CUDA0"]

    assert (device["utilisation"], device["temperature"], device["power"]) == (None, None, None)
    assert device["stale"] is None


def test_nvml_that_goes_and_comes_back(stub, gpus):
    gpus.read()
    stub.show(ONE, TWO, init=UNKNOWN)
    for _ in range(4):
        devices = gpus.read()

    assert [device["stale"] is not None for device in devices.values()] == [True, True]
    assert gpus.knows  # the engine is not asked in its place
    before = len(gpus.warnings)
    gpus.read()
    assert len(gpus.warnings) == before

    stub.show(ONE, TWO)
    gpus.read()
    assert [device["stale"] for device in gpus.read().values()] == [None, None]


def test_nvml_that_starts_with_an_error_is_tried_again(stub, tmp_path):
    stub.show(ONE, init=UNKNOWN)
    with reading(tmp_path, **stub.environment) as gpus:
        assert gpus.read() == gpus.read() == {}
        assert len(gpus.warnings) == 1

        stub.show(ONE)
        assert list(gpus.read()) == ["CUDA0"]


def test_a_machine_without_a_driver_has_no_gpus_and_says_nothing(stub, tmp_path):
    stub.show(init=DRIVER_NOT_LOADED)
    with reading(tmp_path, **stub.environment) as gpus:
        assert gpus.read() == gpus.read() == {}
        assert not gpus.knows
        assert gpus.warnings == []


def test_a_machine_without_the_library_has_no_gpus_and_says_nothing(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    with reading(tmp_path, LD_LIBRARY_PATH=str(tmp_path)) as gpus:
        assert gpus.read() == {}
        assert gpus.warnings == []


def test_a_gpu_that_is_lost_from_the_start_is_said_and_found_later(stub, tmp_path):
    stub.show(StubGpu("GPU-aaaa", error=GPU_IS_LOST), TWO)
    with reading(tmp_path, **stub.environment) as gpus:
        assert [device["total"] for device in gpus.read().values()] == [48 * GIB]
        gpus.read()
        assert len(gpus.warnings) == 1

        stub.show(ONE, TWO)
        assert {device["total"] for device in gpus.read().values()} == {24 * GIB, 48 * GIB}


def test_gpus_are_numbered_by_their_addresses(stub, tmp_path):
    stub.show(StubGpu("GPU-aaaa", bus=9), StubGpu("GPU-cccc", bus=3, total=8 * GIB))
    with reading(tmp_path, **stub.environment) as gpus:
        assert [device["total"] for device in gpus.read().values()] == [8 * GIB, 24 * GIB]


@pytest.mark.parametrize(
    ("setting", "totals"),
    [("1,0", [48, 24]), ("1", [48]), ("GPU-b", [48]), ("", []), ("-1", [])],
)
def test_children_see_only_what_is_visible(stub, tmp_path, setting, totals):
    stub.show(ONE, TWO)
    with reading(tmp_path, **stub.environment, CUDA_VISIBLE_DEVICES=setting) as gpus:
        devices = gpus.read()

    assert [device["total"] // GIB for device in devices.values()] == totals
    assert list(devices) == [f"CUDA{number}" for number in range(len(totals))]


def test_a_lost_gpu_is_not_replaced_by_the_next_one(stub, tmp_path):
    stub.show(ONE, TWO)
    with reading(tmp_path, **stub.environment, CUDA_VISIBLE_DEVICES="0") as gpus:
        gpus.read()
        stub.show(StubGpu("GPU-aaaa", error=GPU_IS_LOST), TWO)
        for _ in range(3):
            devices = gpus.read()

    assert {name: device["total"] for name, device in devices.items()} == {"CUDA0": 24 * GIB}
    assert devices["CUDA0"]["stale"] > 0


@pytest.mark.parametrize(
    ("gpu", "setting"),
    [(StubGpu("GPU-aaaa", partitioned=True), "0"), (ONE, "MIG-1111")],
)
def test_partitions_are_left_to_the_engine_and_said_once(stub, tmp_path, gpu, setting):
    stub.show(gpu)
    with reading(tmp_path, **stub.environment, CUDA_VISIBLE_DEVICES=setting) as gpus:
        assert gpus.read() == gpus.read() == {}
        assert not gpus.knows
        assert len(gpus.warnings) == 1
        assert "the engine is asked" in gpus.warnings[0]
