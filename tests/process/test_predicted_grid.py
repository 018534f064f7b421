"""What the ledger would grant is what the engine then allocates: on each device, for each place."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from models_registry.launch import LaunchSpec
from scheduler.core.placing import context_at, need_of, steps
from scheduler.core.sizes import (
    FIXED,
    HOST,
    ON_HOST,
    DeviceId,
    FileId,
    Grant,
    Kind,
    Placement,
    Shape,
    on_each,
)
from scheduler.core.sizes import loaded as loaded_need
from scheduler.measuring.measuring import measure, model_of
from scheduler.runtime.allocated import MIB, Allocated
from scheduler.runtime.engines.granted import granted_argv
from scheduler.runtime.engines.llama_server import LlamaServer
from tests.support.loaded_engine import loaded
from tests.support.made_once import CACHE
from tests.support.quantised import quantised
from tests.support.rpc_device import rpc_device
from tests.support.tiny_model import real_model, tiny_model
from tests.support.tiny_projector import tiny_projector

from .running import short_var

pytestmark = [pytest.mark.engine, pytest.mark.slow]

WORST, WORST_BYTES, MEDIAN = 0.05, 2 * MIB, 0.02
DEEP = {"blocks": 40, "width": 128}
LAYERS = {"real": 31, "q4_0": 31, "tiny": 2, "deep": 41}


@dataclass(frozen=True)
class Preset:
    """`devices` are how many RPC servers it may use; `places` how many layers each of them gets,
    empty for the host alone, None where its options say it."""

    name: str
    options: Mapping[str, str]
    model: str = "real"
    devices: int = 0
    places: tuple[tuple[int, ...] | None, ...] = ((),)


def preset(
    name: str,
    model: str = "real",
    devices: int = 0,
    places: tuple[tuple[int, ...] | None, ...] = ((),),
    **options: object,
) -> Preset:
    said = {key.replace("_", "-"): str(value) for key, value in options.items()}
    return Preset(name, said, model, devices, places)


def path_of(name: str) -> Path:
    if name == "tiny":
        return tiny_model(CACHE / "measured", "tiny")
    if name == "deep":
        return tiny_model(CACHE / "measured", "deep", **DEEP)
    return real_model() if name == "real" else quantised(name)


GRID = [
    preset("one slot", parallel=1),
    preset("two slots", parallel=2),
    preset("four slots on one cache", parallel=4, kv_unified="true"),
    preset("a context of its own", parallel=2, ctx_size=3000),
    preset("the whole context", parallel=2, ctx_size=0, places=(None,), n_gpu_layers=0),
    preset("q8_0", parallel=1, cache_type_k="q8_0", cache_type_v="q8_0", flash_attn="on"),
    preset("q4_0 keys", parallel=2, cache_type_k="q4_0", flash_attn="on"),
    preset("f32 keys", parallel=1, cache_type_k="f32"),
    preset("no flash attention", parallel=2, flash_attn="off"),
    preset("small steps", parallel=2, ubatch_size=128),
    preset("large steps", parallel=2, ubatch_size=1024),
    preset("embeddings", parallel=2, embeddings="true", pooling="mean"),
    preset("not mapped", parallel=2, load_mode="none"),
    preset("repacked", "q4_0", parallel=2),
    preset("tiny", "tiny", parallel=4),
    preset("deep", "deep", parallel=2),
    preset("sees", parallel=1, mmproj=tiny_projector()),
    preset("drafts", parallel=2, model_draft=path_of("deep"), spec_type="draft-simple"),
    preset("on a device", devices=1, places=((31,), (10,), (30,), ()), parallel=2),
    preset("on a device, unified", devices=1, places=((31,), (7,)), parallel=4, kv_unified="true"),
    preset("on a device, q8_0", devices=1, places=((31,), (20,)), parallel=1,
           cache_type_k="q8_0", cache_type_v="q8_0", flash_attn="on"),
    preset("on a device, not mapped", devices=1, places=((31,), (12,)), parallel=2,
           load_mode="none"),
    preset("on a device, repacked", "q4_0", devices=1, places=((31,), (15,)), parallel=2),
    preset("on a device, cache on the host", devices=1, places=((31,), (10,)), parallel=2,
           kv_offload="false"),
    preset("sees on a device", devices=1, places=((31,), (10,)), parallel=1,
           mmproj=tiny_projector()),
    preset("drafts on a device", devices=1, places=((31,), (10,)), parallel=2,
           model_draft=path_of("deep"), spec_type="draft-simple"),
    preset("deep on a device", "deep", devices=1, places=((41,), (20,)), parallel=2),
    preset("on two devices", devices=2, places=((31, 0), (10, 21), (25, 6), (5, 8)), parallel=2),
    preset("deep on two devices", "deep", devices=2, places=((11, 30), (30, 11), (9, 3)),
           parallel=1),
    preset("sees on two devices", devices=2, places=((11, 20),), parallel=1,
           mmproj=tiny_projector()),
    preset("drafts on two devices", devices=2, places=((20, 11),), parallel=2,
           model_draft=path_of("deep"), spec_type="draft-simple"),
    preset("ten layers", devices=1, places=(None,), parallel=2, n_gpu_layers=10),
    preset("a split of its own", devices=2, places=(None,), parallel=2, tensor_split="3,1"),
    preset("some tensors on the host", "q4_0", devices=1, places=(None,), parallel=2,
           ctx_size=4096, override_tensor=r"blk\.[0-9]\.ffn_.*=CPU"),
    preset("four feed-forwards on the host", devices=1, places=(None,), parallel=2,
           ctx_size=4096, n_cpu_ffn=4),
    preset("no layers", devices=1, places=(None,), parallel=2, ctx_size=4096, n_gpu_layers=0),
    preset("partly repacked", "q4_k_m", parallel=2, ctx_size=4096),
    preset("equal parts", devices=2, places=(None,), parallel=2, n_gpu_layers="all"),
]  # fmt: skip


@dataclass
class Errors:
    """Relative errors of every device of the grid, as the tests find them."""

    found: list[float] = field(default_factory=list)


@pytest.fixture(scope="module")
def errors() -> Errors:
    return Errors()


@pytest.fixture(scope="module")
def run_folder() -> Iterator[Path]:
    with short_var() as folder:
        yield folder


@pytest.fixture(scope="module")
def endpoints() -> Iterator[list[str]]:
    with rpc_device() as first, rpc_device() as second:
        yield [first, second]


def spec_of(preset: Preset, endpoints: list[str]) -> LaunchSpec:
    path = path_of(preset.model)
    options = {"model": str(path), **preset.options}
    if preset.devices:
        options["rpc"] = ",".join(endpoints[: preset.devices])
    argv: list[str] = []
    for key, value in options.items():
        switch = {"true": [f"--{key}"], "false": [f"--no-{key}"]}
        argv += switch.get(value, [f"--{key}", value])
    return LaunchSpec(
        preset.name, (), str(path), tuple(argv), int(preset.options["parallel"]), "f",
        memory_fingerprint="m", memory_options=options,
    )  # fmt: skip


def placement_of(preset: Preset, counts: tuple[int, ...] | None) -> Placement:
    if counts is None:
        return FIXED
    layers = tuple(
        (DeviceId(f"RPC{number}"), count) for number, count in enumerate(counts) if count
    )
    if not layers:
        return ON_HOST
    if sum(counts) < LAYERS[preset.model]:
        return Placement(Kind.PARTIAL, layers)
    return Placement(Kind.WHOLE if len(layers) == 1 else Kind.SPREAD, layers)


def differences(
    spec: LaunchSpec, shape: Shape, placement: Placement, step: int
) -> Mapping[DeviceId, tuple[int, int]]:
    """(predicted, allocated) bytes, by device."""
    need = need_of(shape, placement, step)
    predicted = dict(on_each(loaded_need(need)))
    predicted[HOST] -= model_of(spec).unreported
    grant = Grant(placement, context_at(shape, step), need)
    said = loaded(spec, *granted_argv(spec.memory_options, grant))
    child = Allocated()
    for line in said.log.splitlines():
        child.take(line)
    allocated = child.need(FileId(spec.model_path))
    assert allocated is not None, said.log
    actual = on_each(allocated)
    assert predicted.keys() == actual.keys()
    return {device: (predicted[device], actual[device]) for device in actual}


@pytest.mark.parametrize("preset", GRID, ids=lambda preset: preset.name)
def test_what_is_granted_is_what_is_allocated(
    preset: Preset, run_folder: Path, endpoints: list[str], errors: Errors
) -> None:
    spec = spec_of(preset, endpoints)
    shape = measure(spec, LlamaServer(llama_server), run_folder).shape

    for number, counts in enumerate(preset.places):
        step = steps(shape) - 1 if number % 2 else 0  # the smallest and the largest in turn
        found = differences(spec, shape, placement_of(preset, counts), step)
        for device, (predicted, actual) in found.items():
            error = abs(predicted - actual)
            errors.found.append(error / actual)
            assert error <= max(WORST * actual, WORST_BYTES), (counts, step, device, found)


def test_half_of_all_devices_are_predicted_within_two_percent(errors: Errors) -> None:
    assert len(errors.found) > len(GRID), "the whole grid runs before"
    assert statistics.median(errors.found) <= MEDIAN


@pytest.mark.parametrize("name", ["two slots", "q8_0", "the whole context"])
def test_a_server_without_a_table_is_measured_by_the_bindings(name: str, run_folder: Path) -> None:
    [preset] = (each for each in GRID if each.name == name)
    spec = spec_of(preset, [])
    silent = measure(spec, LlamaServer(lambda: Path("/bin/true")), run_folder)
    placement = FIXED if preset.places == (None,) else ON_HOST

    found = differences(spec, silent.shape, placement, 0)

    assert silent.way == "bindings"
    assert all(abs(predicted - actual) <= WORST_BYTES for predicted, actual in found.values())
