"""Budgets that cannot be, and files that lie about their size: what is said, and who goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.asking import whole
from tests.support.gateway import Gateway, gateway, serve
from tests.support.managing import MIB, Manager
from tests.support.polling import eventually
from tests.support.processes import processes_of
from tests.unit.registry.gguf.files import STRING, Gguf, array

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TIB = 1 << 40
BOMB = "bomb"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CORRAL_DEVICE_BUDGET", "Host=-5GiB"),
        ("CORRAL_MEMORY_MARGIN", "Host=-1"),
    ],
)
def test_a_budget_or_margin_that_means_nothing_stops_the_start_with_its_name(
    tmp_path: Path, variable: str, value: str
) -> None:
    with serve(tmp_path / "var", ["--port", "0"], {variable: value}) as refused:
        refused.process.wait(60)

    assert refused.process.returncode != 0
    said = "\n".join(refused.output)
    assert variable in said
    assert value in said
    assert processes_of(refused.var) == []


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """More than any machine has of the host, something of a GPU that is not there, and a file that
    claims more texts than fit into memory, a terabyte long."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "models").mkdir()
    bomb = folder / "models" / f"{BOMB}.gguf"
    bomb.write_bytes(Gguf(keys=(array("a", STRING, 1 << 34),), data=b"").written())
    os.truncate(bomb, TIB)  # with holes: it takes no place on the disk
    env = {"CORRAL_DEVICE_BUDGET": "Host=900000GiB, CUDA7=4GiB"}
    models = {"alpha": {"seed": 1}, "beta": {"seed": 2}}
    with gateway(folder, env=env, models=models, models_dir=folder / "models") as started:
        yield started


@pytest.fixture(scope="module")
def manage(running: Gateway) -> Manager:
    return Manager(running)


def test_a_budget_larger_than_the_device_is_the_device_and_one_of_no_device_is_warned_of(
    running: Gateway, manage: Manager
) -> None:
    host = eventually(manage.device, "the host has been read")

    assert host["budget"] == host["total"]
    said = "\n".join(running.output)
    assert "the budget of Host" in said
    assert "is larger than the device" in said
    assert "there is no device CUDA7 for which a budget is set" in said
    assert whole(running.client.chat("alpha"))


def test_a_row_takes_no_nonsense_and_no_device_that_is_not_here(
    running: Gateway, manage: Manager
) -> None:
    for nonsense in (-1, 1.5, "many", 1 << 40):
        refused = manage("PATCH", "/devices/Host", {"budget": nonsense})
        assert (refused.status, refused.code) == (422, "validation_failed")

    refused = manage("PATCH", "/devices/CUDA8", {"budget": 4096, "margin": 100_000_000})

    assert (refused.status, refused.code) == (422, "validation_failed")
    assert "no such device here. Known: Host" in refused.message
    assert not manage.device("CUDA8")
    assert whole(running.client.chat("alpha"))


def test_a_margin_larger_than_the_device_leaves_nothing_and_says_so(
    running: Gateway, manage: Manager
) -> None:
    assert manage("PATCH", "/devices/Host", {"margin": 2_000_000_000}).status == 200
    eventually(lambda: manage.device()["available"] == 0, "nothing is left")
    refused = running.client.chat("beta")
    assert refused.status == 503
    assert refused.code in ("model_too_large", "memory_in_use")

    assert manage("PATCH", "/devices/Host", {"margin": 256}).status == 200
    eventually(lambda: manage.device()["available"] > 256 * MIB, "there is room again")
    assert whole(running.client.chat("beta"))


def test_a_file_that_lies_is_refused_with_its_reason_and_the_others_run(
    running: Gateway, manage: Manager
) -> None:
    refused = eventually(lambda: _told_unreadable(running), "its preset cannot be started", 60)

    assert "strings" in refused
    [row] = manage.measurements(BOMB)
    assert row["state"] == "unreadable"
    assert whole(running.client.chat("alpha"))
    assert BOMB not in {child.preset for child in running.children()}


def _told_unreadable(running: Gateway) -> str:
    """What a client is told, once the file has been looked at."""
    answer = running.client.chat(BOMB)
    assert answer.status == 503
    return answer.message if "cannot be read" in answer.message else ""
