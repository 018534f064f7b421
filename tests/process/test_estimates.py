"""What is estimated from a header alone, against what the engine allocates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from models_registry.gguf.estimate import Estimate, estimate, estimate_projector
from models_registry.gguf.header import read_header
from models_registry.launch import LaunchSpec
from tests.support.loaded_engine import MIB, loaded
from tests.support.rpc_device import rpc_device
from tests.support.tiny_architectures import tiny_of
from tests.support.tiny_model import real_model
from tests.support.tiny_projector import tiny_projector

pytestmark = [pytest.mark.engine, pytest.mark.slow]

_BUFFER = re.compile(r"(\w+?)(?:\[[^\]]*\])? +(model|KV|RS|compute|output) buffer size = +([\d.]+)")


@dataclass(frozen=True)
class Case:
    model: str
    within: float
    """How far the compute buffer may be off, as a share of the engine's."""
    options: dict[str, str]

    def __str__(self) -> str:
        return " ".join([self.model, *(f"{key}={value}" for key, value in self.options.items())])


def case(model: str, within: float, **options: object) -> Case:
    return Case(
        model, within, {key.replace("_", "-"): str(value) for key, value in options.items()}
    )


ON_THE_HOST = [
    case("real", 0.01, ctx_size=4096, parallel=2),
    case("real", 0.01, ctx_size=1024, parallel=1, ubatch_size=2048),
    case("real", 0.01, ctx_size=16384, parallel=2, ubatch_size=128),
    case("real", 0.01, ctx_size=4096, parallel=64, kv_unified="true"),
    case("real", 0.01, ctx_size=16384, parallel=2, flash_attn="off"),
    case("real", 0.01, ctx_size=4096, parallel=2, embeddings="true"),
    case("qwen3", 0.03, ctx_size=8192, parallel=2),
    case("qwen3", 0.03, ctx_size=8192, parallel=2, flash_attn="off"),
    case("gemma3", 0.03, ctx_size=16384, parallel=2),
    case("olmo2", 0.03, ctx_size=16384, parallel=2),
    case("deepseek2", 0.05, ctx_size=8192, parallel=2),
    case("mamba", 0.15, ctx_size=4096, parallel=2),
    case("granitehybrid", 0.15, ctx_size=8192, parallel=2),
    case("mamba2", 0.15, ctx_size=4096, parallel=2),
    case("lfm2", 0.03, ctx_size=8192, parallel=2),
]


def path_of(model: str) -> Path:
    return real_model() if model == "real" else tiny_of(model)


def allocated(case: Case, *more: str) -> dict[tuple[str, str], float]:
    """MiB by device and kind of buffer; several of a kind are added up."""
    path = path_of(case.model)
    argv = ["--model", str(path), "--no-warmup", "--no-repack", *more]
    for key, value in case.options.items():
        argv += [f"--{key}"] if value == "true" else [f"--{key}", value]
    log = loaded(LaunchSpec("estimated", (), str(path), tuple(argv), 1, "f")).log
    found: dict[tuple[str, str], float] = {}
    for device, kind, mib in _BUFFER.findall(log):
        key = ("Host" if device.startswith("CPU") else device, "KV" if kind == "RS" else kind)
        found[key] = found.get(key, 0.0) + float(mib)
    assert found, log
    return found


def estimated(case: Case) -> Estimate:
    header = read_header(path_of(case.model))
    return estimate(header, case.options, [int(case.options["ctx-size"])])


@pytest.mark.parametrize("case", ON_THE_HOST, ids=str)
def test_on_the_host(case: Case) -> None:
    found, truth = estimated(case), allocated(case)

    assert found.cache_is_exact
    assert sum(each.cache[0] for each in found.layers) / MIB == pytest.approx(
        truth["Host", "KV"], abs=0.02
    )
    assert found.mapped[0] / MIB == pytest.approx(truth["Host", "model"], abs=0.02)
    assert found.host_compute[1][0] / MIB == pytest.approx(
        truth["Host", "compute"], rel=case.within
    )
    if "embeddings" not in case.options:
        assert found.outputs / MIB == pytest.approx(truth["Host", "output"], abs=0.01)


def test_on_a_device() -> None:
    asked = case("real", 0.01, ctx_size=4096, parallel=2)
    with rpc_device() as address:
        truth = allocated(asked, "--rpc", address, "--n-gpu-layers", "99")
    found = estimated(asked)

    weights = sum(each.weights for each in found.layers)
    assert weights / MIB == pytest.approx(truth["RPC0", "model"], abs=0.05)
    assert found.mapped[-1] / MIB == pytest.approx(truth["Host", "model"], abs=0.02)
    assert found.device_compute[0] / MIB == pytest.approx(truth["RPC0", "compute"], rel=0.01)
    assert found.host_compute[0][0] / MIB == pytest.approx(truth["Host", "compute"], rel=0.01)


@pytest.mark.parametrize(("width", "blocks"), [(128, 4), (512, 4)])
def test_a_projector(width: int, blocks: int) -> None:
    projector = tiny_projector(width=width, blocks=blocks)
    argv = ("--model", str(real_model()), "--mmproj", str(projector), "--ctx-size", "1024")
    log = loaded(LaunchSpec("seeing", (), str(real_model()), argv, 1, "f")).log
    [both] = re.findall(r"memory usage of mmproj is ([\d.]+) MiB", log)
    [compute] = re.findall(r"reserve_compute_meta: .* compute buffer size = +([\d.]+) MiB", log)

    found = estimate_projector(read_header(projector))

    assert found.weights / MIB == pytest.approx(float(both) - float(compute), abs=0.02)
    assert found.compute / MIB == pytest.approx(float(compute), rel=0.1)
