"""What is measured without weights equals what the engine says once it has loaded them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from models_registry.launch import LaunchSpec
from scheduler.measuring.figures import totals
from scheduler.measuring.measuring import measure
from scheduler.runtime.engines.llama_server import LlamaServer
from tests.support.loaded_engine import MIB, loaded
from tests.support.rpc_device import rpc_device
from tests.support.tiny_model import CACHE, real_model, tiny_model

from .running import children, short_var

pytestmark = [pytest.mark.engine, pytest.mark.slow]

WITHIN = 2 * MIB
DEEP = {"blocks": 40, "width": 128}


@dataclass(frozen=True)
class Case:
    name: str
    model: str = "real"
    options: Mapping[str, str] = field(default_factory=dict)


def case(name: str, model: str = "real", **options: object) -> Case:
    return Case(name, model, {key.replace("_", "-"): str(value) for key, value in options.items()})


ON_THE_HOST = [
    case("one slot", ctx_size=4096, parallel=1),
    case("two slots", ctx_size=4096, parallel=2),
    case("four slots on one cache", ctx_size=8192, parallel=4, kv_unified="true"),
    case("the model's own context", parallel=4, kv_unified="true"),
    case("sixteen slots, each with the model's own context", parallel=16),
    case("two slots, context 0", parallel=2, ctx_size=0),
    case("two slots, f32 keys", parallel=2, cache_type_k="f32"),
    case("four slots that embed", parallel=4, embeddings="true", pooling="mean"),
    case("sixteen slots, fitting off", parallel=16, fit="off"),
    case("sixty-four slots", ctx_size=8192, parallel=64, kv_unified="true"),
    case("small steps", ctx_size=4096, parallel=2, ubatch_size=128),
    case("large steps", ctx_size=4096, parallel=2, batch_size=4096, ubatch_size=2048),
    case("q8_0 cache", ctx_size=2048, parallel=1, cache_type_k="q8_0", cache_type_v="q8_0",
         flash_attn="on"),
    case("q4_0 keys", ctx_size=8192, parallel=2, cache_type_k="q4_0", flash_attn="on"),
    case("no flash attention", ctx_size=4096, parallel=2, flash_attn="off"),
    case("embeddings", ctx_size=2048, parallel=2, embeddings="true", pooling="mean"),
    case("fitting off", ctx_size=4096, parallel=2, fit="off"),
    case("not mapped", ctx_size=4096, parallel=2, load_mode="none"),
    case("repacked", "q4_0", ctx_size=4096, parallel=2),
    case("repacked, not mapped", "q4_0", ctx_size=4096, parallel=2, load_mode="none"),
    case("partly repacked", "q4_k_m", ctx_size=4096, parallel=2),
    case("not repacked", "q4_0", ctx_size=4096, parallel=2, repack="false"),
    case("tiny", "tiny", parallel=4, kv_unified="true"),
    case("tiny and deep", "deep", ctx_size=16384, parallel=8),
]  # fmt: skip
BY_THE_BINDINGS = {
    "two slots", "the model's own context", "q8_0 cache", "two slots, context 0",
    "two slots, f32 keys", "sixteen slots, fitting off",
}  # fmt: skip
WITH_A_DEVICE = [
    case("all layers", ctx_size=4096, parallel=2),
    case("all layers, the model's own context for each slot", parallel=2),
    case("ten layers", ctx_size=4096, parallel=2, n_gpu_layers=10),
    case("ten layers, not mapped", ctx_size=4096, parallel=2, n_gpu_layers=10, load_mode="none"),
    case("ten layers, repacked", "q4_0", ctx_size=4096, parallel=2, n_gpu_layers=10),
    case("no layers", ctx_size=4096, parallel=2, n_gpu_layers=0),
    case("the cache on the host", ctx_size=4096, parallel=2, kv_offload="false"),
    case("some tensors on the host", "q4_0", ctx_size=4096, parallel=2,
         override_tensor=r"blk\.[0-9]\.ffn_.*=CPU"),
    case("four feed-forwards on the host", ctx_size=4096, parallel=2, n_cpu_ffn=4),
]  # fmt: skip


def spec_of(case: Case, *, rpc: str = "") -> LaunchSpec:
    path = model_of(case.model)
    options = {"model": str(path), **case.options, **({"rpc": rpc} if rpc else {})}
    argv: list[str] = []
    for key, value in options.items():
        switch = {"true": [f"--{key}"], "false": [f"--no-{key}"]}
        argv += switch.get(value, [f"--{key}", value])
    return LaunchSpec(
        "measured", (), str(path), tuple(argv), 1, "f",
        memory_fingerprint="m", memory_options=options,
    )  # fmt: skip


def model_of(name: str) -> Path:
    if name == "tiny":
        return tiny_model(CACHE / "measured", "tiny")
    if name == "deep":
        return tiny_model(CACHE / "measured", "deep", **DEEP)
    return real_model() if name == "real" else quantised(name)


def quantised(kind: str) -> Path:
    """The real model in a type that the engine repacks for the CPU. Made once."""
    made = CACHE / f"real-{kind}.gguf"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        draft = made.with_suffix(".draft")
        subprocess.run(
            [llama_server().with_name("llama-quantize"), "--allow-requantize",
             str(real_model()), str(draft), kind],
            check=True, capture_output=True,
        )  # fmt: skip
        draft.replace(made)
    return made


@pytest.fixture(scope="module")
def run_folder() -> Iterator[Path]:
    with short_var() as folder:
        yield folder


@pytest.fixture(scope="module")
def device() -> Iterator[str]:
    with rpc_device() as address:
        yield address


def differences(spec: LaunchSpec, run_folder: Path) -> dict[str, tuple[float, float]]:
    """MiB, by device: measured less allocated, measured less the table at exit."""
    found = totals(measure(spec, LlamaServer(llama_server), run_folder).devices)
    truth = loaded(spec)
    assert truth.allocated, truth.log
    assert found.keys() == truth.allocated.keys() == truth.at_exit.keys()
    return {
        name: ((total - truth.allocated[name]) / MIB, (total - truth.at_exit[name]) / MIB)
        for name, total in found.items()
    }


@pytest.mark.parametrize("case", ON_THE_HOST, ids=lambda case: case.name)
def test_on_the_host_it_is_what_the_engine_allocates(case: Case, run_folder: Path) -> None:
    found = differences(spec_of(case), run_folder)

    assert all(abs(mib) <= WITHIN / MIB for pair in found.values() for mib in pair), found
    assert children() == []


@pytest.mark.parametrize("case", WITH_A_DEVICE, ids=lambda case: case.name)
def test_with_a_device_each_part_is_what_the_engine_allocates(
    case: Case, run_folder: Path, device: str
) -> None:
    found = differences(spec_of(case, rpc=device), run_folder)

    assert all(abs(mib) <= WITHIN / MIB for pair in found.values() for mib in pair), found


@pytest.mark.parametrize(
    "case",
    [found for found in ON_THE_HOST if found.name in BY_THE_BINDINGS],
    ids=lambda case: case.name,
)
def test_a_server_without_a_table_is_measured_by_the_bindings(case: Case, run_folder: Path) -> None:
    spec = spec_of(case)
    silent = LlamaServer(lambda: Path("/bin/true"))

    found = measure(spec, silent, run_folder)
    truth = loaded(spec)

    assert found.way == "bindings"
    assert totals(found.devices) == pytest.approx(truth.allocated, abs=WITHIN)
