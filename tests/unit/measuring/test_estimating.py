"""The shape of a preset that is not measured, by the header of its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import HOST, FixedShape, OpenShape
from scheduler.measuring.estimating import estimated_shape
from scheduler.measuring.overheads import PROCESS
from tests.support.tiny_model import tiny_model


def spec(folder: Path, **options: str) -> LaunchSpec:
    path = str(tiny_model(folder, "m", blocks=10))
    said = {key.replace("_", "-"): value for key, value in options.items()}
    return LaunchSpec(
        "p", (), path, (), 1, "f", memory_fingerprint="m",
        memory_options={"model": path, "cache-ram": "0", **said}, devices=("CUDA0", "CUDA1"),
    )  # fmt: skip


def test_what_is_open_stays_open(tmp_path: Path) -> None:
    shape = estimated_shape(spec(tmp_path))

    assert isinstance(shape, OpenShape)
    assert (shape.contexts, shape.devices) == ((4096, 8192), ("CUDA0", "CUDA1"))
    assert len(shape.layers) == 11
    assert (shape.host_fixed > PROCESS, shape.first_device_fixed) == (True, ())


@pytest.mark.parametrize(
    ("layers", "devices"), [("0", set()), ("5", {"CUDA0", "CUDA1"}), ("all", {"CUDA0", "CUDA1"})]
)
def test_layers_that_the_options_place_are_on_the_devices_in_equal_parts(
    tmp_path: Path, layers: str, devices: set[str]
) -> None:
    shape = estimated_shape(spec(tmp_path, n_gpu_layers=layers, ctx_size="2048"))

    assert isinstance(shape, FixedShape)
    [(context, need)] = shape.sizes
    assert context == 2048
    assert {device for device, _ in need.own} == {HOST, *devices}


def test_a_draft_model_and_a_projector_are_on_the_first_device(tmp_path: Path) -> None:
    draft = tiny_model(tmp_path / "draft", "d")
    shape = estimated_shape(spec(tmp_path, model_draft=str(draft)))

    assert isinstance(shape, OpenShape)
    assert draft.stat().st_size < shape.first_device_fixed[0] < shape.first_device_fixed[1]
