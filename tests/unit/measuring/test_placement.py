"""Which options keep tensors on the host."""

from __future__ import annotations

import re

import pytest

from scheduler.measuring.placement import EVERY_LAYER, divided, gpu_layers, placed


@pytest.mark.parametrize(
    ("value", "layers"), [(None, EVERY_LAYER), ("auto", EVERY_LAYER), ("all", EVERY_LAYER),
                          ("-1", EVERY_LAYER), ("0", 0), ("12", 12)]
)  # fmt: skip
def test_layers_elsewhere(value: str | None, layers: int) -> None:
    assert gpu_layers({"n-gpu-layers": value} if value else {}) == layers


def test_patterns_keep_their_order_and_say_where() -> None:
    options = {"override-tensor": r"blk\.1\..*=CUDA1,ffn=CPU"}

    assert placed(options) == [(r"blk\.1\..*", False), ("ffn", True)]


@pytest.mark.parametrize(
    ("options", "on_host", "elsewhere"),
    [
        ({"cpu-moe": "true"}, "blk.3.ffn_up_exps.weight", "blk.3.ffn_up.weight"),
        ({"n-cpu-moe": "2"}, "blk.1.ffn_down_exps.weight", "blk.2.ffn_down_exps.weight"),
        ({"n-cpu-ffn": "2"}, "blk.0.ffn_gate.weight", "blk.12.ffn_gate.weight"),
    ],
)
def test_short_options_are_patterns_too(
    options: dict[str, str], on_host: str, elsewhere: str
) -> None:
    [(pattern, is_host)] = placed(options)

    assert is_host
    assert re.search(pattern, on_host)
    assert not re.search(pattern, elsewhere)


def test_nothing_set_places_nothing() -> None:
    assert placed({"cpu-moe": "false", "n-cpu-moe": "0"}) == []


@pytest.mark.parametrize(
    ("count", "options", "layers"),
    [
        (5, {}, {"CUDA0": 3, "CUDA1": 2}),
        (0, {}, {}),
        (8, {"tensor-split": "3,1"}, {"CUDA0": 6, "CUDA1": 2}),
        (8, {"tensor-split": "0/1"}, {"CUDA1": 8}),
        (8, {"tensor-split": "x"}, {"CUDA0": 4, "CUDA1": 4}),
        (8, {"split-mode": "none"}, {"CUDA0": 8}),
        (8, {"split-mode": "none", "main-gpu": "1"}, {"CUDA1": 8}),
        (8, {"split-mode": "none", "main-gpu": "7"}, {"CUDA0": 8}),
    ],
)
def test_layers_are_divided_as_the_options_say(
    count: int, options: dict[str, str], layers: dict[str, int]
) -> None:
    assert divided(count, ("CUDA0", "CUDA1"), options) == layers
