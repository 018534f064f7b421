"""Which options make a preset be measured anew."""

from __future__ import annotations

import pytest

from models_registry.engine_version import devices_in, version_in
from models_registry.options.command_line import EffectiveOption, Layer
from models_registry.options.memory_options import IRRELEVANT, memory_options

from .known import CATALOGUE


def options(**values: str) -> list[EffectiveOption]:
    return [
        EffectiveOption(key.replace("_", "-"), value, Layer.PRESET) for key, value in values.items()
    ]


@pytest.mark.parametrize("key", sorted(IRRELEVANT))
def test_what_is_called_irrelevant_is_an_option_by_its_canonical_key(key: str) -> None:
    assert CATALOGUE.option(key).key == key


@pytest.mark.parametrize(
    "key",
    [
        "n-gpu-layers", "ctx-size", "parallel", "kv-unified", "batch-size", "ubatch-size",
        "cache-type-k", "cache-type-v", "flash-attn", "embeddings", "pooling", "device",
        "split-mode", "tensor-split", "main-gpu", "mmproj", "swa-full", "kv-offload",
        "override-tensor", "cpu-moe", "n-cpu-moe", "fit", "fit-target", "fit-ctx", "load-mode",
        "repack", "no-host", "spec-type",
    ],
)  # fmt: skip
def test_what_changes_memory_is_relevant(key: str) -> None:
    assert key not in IRRELEVANT


def test_an_option_that_nobody_has_looked_at_is_relevant() -> None:
    assert memory_options(options(brand_new="7")) == {"brand-new": "7"}


def test_threads_sampling_and_names_are_left_out() -> None:
    asked = options(threads="4", temperature="0.1", chat_template="x", ctx_size="512")

    assert memory_options(asked) == {"ctx-size": "512"}


def test_the_version_is_the_programs_own_word() -> None:
    assert version_in("version: 0.5.0-dev (build 1)\nbuilt with GNU") == "0.5.0-dev (build 1)"
    assert version_in("usage: llama-server") == ""


def test_devices_are_listed_without_what_is_free_on_them() -> None:
    said = (
        "ggml_cuda_init: found 1 CUDA devices:\n  Device 0: NVIDIA X\nAvailable devices:\n"
        "  CUDA0: NVIDIA X (24105 MiB, 1 MiB free)\n  RPC0: 127.0.0.1:1 (5 MiB, 5 MiB free)\n"
    )

    assert devices_in(said) == ("CUDA0: NVIDIA X", "RPC0: 127.0.0.1:1")
    assert devices_in("Available devices:\n  (none)\n") == ()
