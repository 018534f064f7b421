"""What a child takes on the host beside what its engine reports."""

from __future__ import annotations

import pytest

from models_registry.gguf.header import Header
from scheduler.measuring.overheads import MIB, PROCESS, checkpoints, prompt_cache, unreported


def header(architecture: str, **values: object) -> Header:
    named = {f"{architecture}.{key.replace('__', '.')}": value for key, value in values.items()}
    return Header(architecture, named, {}, (), (0,), block_count=6, layers=(0,) * 7)


LLAMA = header("llama", embedding_length=64, attention__head_count=4)
WINDOWED = header(
    "gemma3", embedding_length=64, attention__head_count=4, attention__sliding_window=512
)


@pytest.mark.parametrize(("asked", "mib"), [("0", 0), ("512", 512), ("-1", 8192)])
def test_the_prompt_cache_counts_in_full(asked: str, mib: int) -> None:
    assert prompt_cache({"cache-ram": asked}) == mib * MIB
    assert unreported({"cache-ram": asked}, LLAMA) == PROCESS + mib * MIB


def test_a_model_whose_context_can_be_rolled_back_keeps_no_checkpoints() -> None:
    assert checkpoints({"parallel": "4"}, LLAMA) == 0


def test_each_slot_keeps_what_layers_with_a_window_hold() -> None:
    one = 5 * 512 * (64 + 64) * 2  # five of six layers

    assert checkpoints({"parallel": "3", "swa-checkpoints": "4"}, WINDOWED) == 3 * 4 * one
    assert checkpoints({"swa-checkpoints": "0"}, WINDOWED) == 0
    assert checkpoints({"swa-full": "true"}, WINDOWED) == 0
