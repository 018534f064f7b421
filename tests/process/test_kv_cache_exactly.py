"""The formula of a context's cache gives what the engine allocates, to the last digit it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from models_registry.gguf.header import read_header
from models_registry.gguf.kv_cache import cache_bytes, cache_layout
from models_registry.launch import LaunchSpec
from tests.support.loaded_engine import MIB, loaded
from tests.support.tiny_architectures import KINDS, tiny_of
from tests.support.tiny_model import real_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]

_ALLOCATED = re.compile(r"llama_(?:kv_cache|memory_recurrent): size = +([\d.]+) MiB")


@dataclass(frozen=True)
class Case:
    model: str
    context: int
    slots: int
    options: dict[str, Any]

    def __str__(self) -> str:
        said = [f"{key}={value}" for key, value in self.options.items()]
        return " ".join([self.model, str(self.context), f"x{self.slots}", *said])


def case(model: str, context: int, slots: int, **options: Any) -> Case:
    return Case(model, context, slots, options)


Q8 = {"type_k": "q8_0", "type_v": "q8_0"}
CASES = [
    case("real", 4096, 1),
    case("real", 4096, 1, **Q8),
    case("real", 4096, 1, type_k="q4_0", type_v="q4_0"),
    case("real", 4096, 2, type_k="q5_1", type_v="iq4_nl"),
    case("real", 2048, 2, type_k="f32", type_v="bf16"),
    case("real", 8192, 2),
    case("real", 1000, 1),
    case("real", 1000, 3),
    case("real", 1025, 4),
    case("real", 8192, 4, unified=True),
    case("real", 4096, 2, flash=False),
    case("real", 4096, 2, ubatch=128),
    # The rest of what the grid of test_predicted_grid.py sets
    case("real", 3000, 2),
    case("real", 4096, 1, type_k="f32"),
    case("real", 4096, 2, type_k="q4_0"),
    case("real", 4096, 2, ubatch=1024),
    case("qwen3", 8192, 8),
    case("deci", 8192, 2),
    case("deci", 8192, 2, flash=False),
    case("deci", 4096, 4, unified=True, flash=False),
    case("gemma2", 16384, 2),
    case("gemma2", 16384, 4, unified=True),
    case("gemma2", 16384, 2, swa_full=True),
    case("gemma3", 16384, 4),
    case("gemma3", 16384, 4, unified=True),
    case("gemma3", 8192, 2, ubatch=64, **Q8),
    case("gemma3", 8192, 1, ubatch=2048, flash=False),
    case("gemma3", 512, 2),
    case("cohere2", 8192, 3),
    case("olmo2", 8192, 2, ubatch=256),
    case("deepseek2", 16384, 2),
    case("deepseek2", 16384, 2, unified=True, flash=False),
    case("mamba", 2048, 1),
    case("mamba", 8192, 32),
    case("mamba2", 2048, 16),
    case("granitehybrid", 8192, 8),
    case("granitehybrid", 8192, 8, unified=True),
    case("falcon-h1", 8192, 4),
    case("lfm2", 32768, 64),
]


def argv_of(case: Case, path: Path) -> tuple[str, ...]:
    options = case.options
    argv = ["--model", str(path), "--ctx-size", str(case.context), "--parallel", str(case.slots)]
    argv += ["--flash-attn", "on" if options.get("flash", True) else "off"]
    argv += ["--cache-type-k", options.get("type_k", "f16")]
    argv += ["--cache-type-v", options.get("type_v", "f16")]
    argv += ["--ubatch-size", str(options.get("ubatch", 512))]
    argv += ["--kv-unified" if options.get("unified") else "--no-kv-unified", "--no-warmup"]
    return (*argv, *(["--swa-full"] if options.get("swa_full") else []))


def by_the_formula(case: Case, path: Path) -> list[str]:
    """MiB as the engine prints them: one line for each kind of layer that it has a cache for."""
    header = read_header(path)
    layout = cache_layout(header)
    taken = cache_bytes(header, context=case.context, slots=case.slots, **case.options)
    states = [layer.state * 4 * case.slots for layer in layout.layers]
    looks_back = [bool(layer.window) for layer in layout.layers]
    attention = [all_of_it - state for all_of_it, state in zip(taken, states, strict=True)]
    parts = [
        sum(size for size, back in zip(attention, looks_back, strict=True) if back is wanted)
        for wanted in (False, True)
    ]
    assert layout.exact
    return sorted(f"{part / MIB:.2f}" for part in (*parts, sum(states)) if part)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_what_the_engine_allocates(case: Case) -> None:
    path = real_model() if case.model == "real" else tiny_of(case.model)
    argv = argv_of(case, path)

    log = loaded(LaunchSpec("cache", (), str(path), argv, case.slots, "f")).log

    assert sorted(_ALLOCATED.findall(log)) == by_the_formula(case, path), log[-3000:]


def test_every_tiny_architecture_is_asked() -> None:
    assert {case.model for case in CASES} == {"real", *KINDS}
