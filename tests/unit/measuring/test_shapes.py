"""Which plain data is a shape, and which only looks like one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.measuring.shapes import NoShape, shape_of

MOST = 1 << 50
NEED = {"own": {"CUDA0": 5}}
LAYER = {"weights": 10, "cache": [1, 2], "largest": 4}


def opened(**fields: Any) -> dict[str, Any]:
    return {
        "form": "open", "contexts": [4096, 8192], "layers": [LAYER] * 3, "devices": ["CUDA0"],
        "file": "f", "mapped": [3, 2, 1, 0], "device_compute": [1, 1],
        "host_compute": [[1, 1], [2, 2]], "spread_compute": [[], []], "host_fixed": 1,
        "first_device_fixed": [], "measured": [], "receiving": [],
        "unreported": 0, **fields,
    }  # fmt: skip


def fixed(*sizes: tuple[int, Mapping[str, Any]]) -> dict[str, Any]:
    each = [{"context": context, "need": need} for context, need in sizes]
    return {"form": "fixed", "sizes": each, "unreported": 0}


def measured(**fields: Any) -> dict[str, Any]:
    placed = {"kind": "whole", "layers": {"CUDA0": 3}, "needs": [NEED, NEED], **fields}
    return opened(measured=[placed])


@pytest.mark.parametrize(
    "data",
    [
        opened(),
        opened(first_device_fixed=[1, 2], spread_compute=[[1, 2], [3, 4]]),
        opened(layers=[LAYER] * 2048, mapped=[0] * 2049),
        measured(),
        fixed((0, NEED)),
        fixed((1, {"own": {"RPC0": 5}, "passing": {"RPC0": 5}})),
        fixed((1, NEED), (2, {"own": {"Host": MOST}, "mapped": {"f": 1}})),
    ],
)
def test_it_is_one(data: dict[str, Any]) -> None:
    shape_of(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"form": "sideways"},
        fixed(),
        fixed((2, NEED), (1, NEED)),
        fixed((-1, NEED)),
        fixed(*((at, NEED) for at in range(100))),
        fixed((1, {"own": {"CUDA0": -1}})),
        fixed((1, {"own": {"RPC0": 5}, "passing": {"RPC0": 6}})),
        fixed((1, {"own": {"RPC0": 5}, "passing": {"RPC1": 1}})),
        fixed((1, {"own": {"CUDA0": MOST + 1}})),
        fixed((1, {"own": {"CUDA0": 10**30}})),
        fixed((1, {"own": {f"CUDA{number}": 1 for number in range(100)}})),
        opened(contexts=[]),
        opened(contexts=[0, 4096]),
        opened(contexts=[8192, 4096]),
        opened(contexts=[4096]),
        opened(layers=[], mapped=[0]),
        opened(layers=[LAYER] * 2049, mapped=[0] * 2050),
        opened(layers=[{**LAYER, "cache": [1]}] * 3),
        opened(layers=[{**LAYER, "weights": -1}] * 3),
        opened(devices=["CUDA0", "CUDA0"]),
        opened(devices=[f"CUDA{number}" for number in range(65)]),
        opened(mapped=[3, 2, 1]),
        opened(mapped=[3, 2, 1, -1]),
        opened(device_compute=[]),
        opened(host_compute=[[1, 1], [1]]),
        opened(host_fixed=-1),
        opened(first_device_fixed=[1]),
        opened(spread_compute=[[1, 1], []]),
        opened(spread_compute=[[1], [1]]),
        measured(kind="sideways"),
        measured(layers={"CUDA0": 4}),
        measured(layers={"CUDA0": 2, "CUDA1": 2}),
        measured(layers={"CUDA0": -1}),
        measured(needs=[NEED]),
    ],
)
def test_it_is_none(data: dict[str, Any]) -> None:
    with pytest.raises(NoShape):
        shape_of(data)
