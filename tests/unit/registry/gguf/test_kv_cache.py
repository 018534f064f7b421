"""What each architecture keeps of its context; against the engine: test_kv_cache_exactly.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.gguf.estimate import estimate, estimate_projector
from models_registry.gguf.header import Header, UnreadableHeader, header_of
from models_registry.gguf.kv_cache import (
    _BOTH_ON_EACH_LAYER,
    _ENCODERS,
    _ORDINARY,
    _RECURRENT,
    _RECURRENT_BY_INTERVAL,
    _RECURRENT_WITHOUT_HEADS,
    _WINDOWED,
    cache_bytes,
    cache_layout,
    cells_of,
)

MIB = 1 << 20
ARCHITECTURES = sorted(
    _ORDINARY | _ENCODERS | _WINDOWED.keys() | _RECURRENT | _RECURRENT_WITHOUT_HEADS
    | _RECURRENT_BY_INTERVAL | _BOTH_ON_EACH_LAYER | {"of the year after"}
)  # fmt: skip


def header(architecture: str = "llama", **values: Any) -> Header:
    """Thirty layers with three heads of 64 for keys, as SmolLM2 has them, where nothing is said."""
    said = {
        "block_count": 30, "embedding_length": 576, "attention.head_count": 9,
        "attention.head_count_kv": 3, "context_length": 8192,
    } | {key.replace("__", "."): value for key, value in values.items()}  # fmt: skip
    return header_of(
        {
            "values": {
                "general.architecture": architecture,
                **{f"{architecture}.{key}": value for key, value in said.items()},
            },
            "lengths": {"tokenizer.ggml.tokens": 49152},
            "tensors": [],
            "mapped": [0] * 32,
        }
    )


def windows(found: Header) -> list[int]:
    return [layer.window for layer in cache_layout(found).layers]


@pytest.mark.parametrize(
    ("context", "slots", "cache_type", "mib"),
    [
        (4096, 1, "f16", 90), (4096, 1, "q8_0", 47.8125), (4096, 1, "q4_0", 25.3125),
        (8192, 2, "f16", 180), (1000, 1, "f16", 22.5), (1000, 3, "f16", 33.75),
    ],
)  # fmt: skip
def test_the_reference_figures(context: int, slots: int, cache_type: str, mib: float) -> None:
    found = cache_bytes(
        header(), context=context, slots=slots, type_k=cache_type, type_v=cache_type
    )

    assert len(set(found)) == 1
    assert sum(found) == mib * MIB


@given(st.integers(1, 1 << 20), st.integers(1, 256))
def test_the_slots_have_at_least_what_was_asked_for(context: int, slots: int) -> None:
    own = cells_of(context, slots, unified=False)

    assert context <= slots * own < context + 256 * (slots + 1)
    assert own % 256 == 0
    assert context <= cells_of(context, slots, unified=True) < context + 256


def test_heads_of_a_size_of_their_own_count() -> None:
    found = header("qwen3", attention__key_length=128, attention__value_length=32)

    [first, *_] = cache_layout(found).layers
    assert (first.keys, first.values) == (3 * 128, 3 * 32)


def test_without_heads_for_keys_each_head_has_its_own() -> None:
    found = header()
    values = {key: value for key, value in found.values.items() if "head_count_kv" not in key}

    [first, *_] = cache_layout(Header(**{**vars(found), "values": values})).layers
    assert first.keys == 9 * 64


def test_by_a_latent_vector_there_are_no_values() -> None:
    found = header("deepseek2", attention__key_length=576, attention__key_length_mla=192,
                   attention__value_length=512, attention__head_count_kv=1)  # fmt: skip

    [first, *_] = cache_layout(found).layers
    assert (first.keys, first.values) == (576, 0)


def test_every_sixth_layer_of_gemma3_sees_everything() -> None:
    found = header("gemma3", attention__sliding_window=512)

    assert windows(found)[:12] == [512, 512, 512, 512, 512, 0] * 2


def test_a_header_may_say_which_layers_have_a_window() -> None:
    every_third = header("gemma3", attention__sliding_window=512,
                         attention__sliding_window_pattern=3)  # fmt: skip
    each = header("gemma4", attention__sliding_window=8,
                  attention__sliding_window_pattern=[True] * 20 + [False] * 10)  # fmt: skip

    assert windows(every_third)[:6] == [512, 512, 0] * 2
    assert windows(each) == [8] * 20 + [0] * 10


def test_layers_with_a_window_may_have_heads_of_another_size() -> None:
    found = header("gemma4", attention__sliding_window=8, attention__key_length=512,
                   attention__value_length=512, attention__key_length_swa=256,
                   attention__value_length_swa=128,
                   attention__sliding_window_pattern=[True, False] * 15)  # fmt: skip

    assert [(each.keys, each.values) for each in cache_layout(found).layers[:2]] == [
        (3 * 256, 3 * 128),
        (3 * 512, 3 * 512),
    ]


@pytest.mark.parametrize(
    ("architecture", "values", "owners"),
    [("gemma3n", {}, 20), ("gemma4", {"attention__shared_kv_layers": 12}, 18)],
)
def test_layers_that_share_a_cache_take_nothing(
    architecture: str, values: dict[str, Any], owners: int
) -> None:
    found = header(architecture, attention__sliding_window=8, **values)

    taken = cache_bytes(found, context=4096, slots=1)
    assert all(taken[:owners])
    assert not any(taken[owners:])


def test_a_window_holds_one_step_more_for_each_slot_that_shares_it() -> None:
    found = header("gemma2", attention__sliding_window=1024)

    def cells(**terms: Any) -> int:
        return cache_bytes(found, context=65536, slots=4, ubatch=512, **terms)[0] // (192 * 2 * 2)

    assert cells() == 4 * (1024 + 512)
    assert cells(unified=True) == 4 * 1024 + 512
    assert cells(swa_full=True) == 65536


def test_a_state_does_not_grow_with_the_context() -> None:
    found = header("mamba", ssm__inner_size=1536, ssm__state_size=16, ssm__conv_kernel=4)
    each = 4 * (3 * 1536 + 16 * 1536)

    assert cache_bytes(found, context=512, slots=1)[0] == each
    assert cache_bytes(found, context=65536, slots=8)[0] == 8 * each


@pytest.mark.parametrize(("architecture", "shifts"), [("rwkv7", 2), ("arwkv7", 1)])
def test_the_state_of_rwkv(architecture: str, shifts: int) -> None:
    found = header(architecture, wkv__head_size=64)

    assert cache_bytes(found, context=512, slots=1)[0] == 4 * 576 * (shifts + 64)


def test_every_fourth_layer_of_qwen35_attends() -> None:
    found = header("qwen35", ssm__inner_size=64, ssm__state_size=8, ssm__conv_kernel=4)

    layers = cache_layout(found).layers
    assert [bool(each.keys) for each in layers[:8]] == [False, False, False, True] * 2
    assert [bool(each.state) for each in layers[:8]] == [True, True, True, False] * 2


def test_a_header_may_say_which_layers_have_a_state() -> None:
    found = header("qwen35", ssm__inner_size=64, ssm__state_size=8, ssm__conv_kernel=4,
                   attention__recurrent_layers=[True, False, True] * 10)  # fmt: skip

    layers = cache_layout(found).layers
    assert [bool(each.state) for each in layers[:6]] == [True, False, True] * 2


def test_an_encoder_keeps_nothing() -> None:
    assert sum(cache_bytes(header("bert"), context=512, slots=4)) == 0


@pytest.mark.parametrize(
    "unsure",
    [
        header("of the year after"),
        header("llama", attention__sliding_window=512),
        header("llama", ssm__inner_size=512),
        header("glm4", nextn_predict_layers=1),
        header("deepseek2", attention__indexer__head_count=4),
    ],
    ids=lambda found: found.architecture,
)
def test_what_is_not_known_is_taken_as_full_attention_and_said(unsure: Header) -> None:
    assert not cache_layout(unsure).exact
    assert cache_bytes(unsure, context=4096, slots=1) == cache_bytes(
        header(), context=4096, slots=1
    )


def test_a_window_that_the_engine_does_not_heed_does_not_make_it_unsure() -> None:
    assert cache_layout(header("qwen3", attention__sliding_window=512)).exact


NUMBERS = st.one_of(
    st.integers(-2, 40), st.sampled_from([1 << 31, 1 << 40, "x", True, 0.5]),
    st.lists(st.integers(-1, 9), max_size=40),
)  # fmt: skip
KEYS = st.sampled_from([
    "embedding_length", "attention.head_count", "attention.head_count_kv", "feed_forward_length",
    "attention.key_length", "attention.value_length", "attention.sliding_window",
    "attention.sliding_window_pattern", "attention.key_length_swa", "attention.shared_kv_layers",
    "attention.key_length_mla", "ssm.inner_size", "ssm.state_size", "ssm.conv_kernel",
    "ssm.group_count", "shortconv.l_cache", "wkv.head_size", "full_attention_interval",
    "expert_used_count", "vision.embedding_length", "vision.image_size", "vision.patch_size",
])  # fmt: skip


@given(st.sampled_from(ARCHITECTURES), st.dictionaries(KEYS, NUMBERS))
def test_whatever_a_header_claims_is_counted_or_refused(
    architecture: str, claims: dict[str, Any]
) -> None:
    found = header(architecture, **claims)
    try:
        told = estimate(found, {"parallel": "2", "flash-attn": "off"}, [512, 4096])
        projector = estimate_projector(found)
    except UnreadableHeader:
        return
    assert all(size >= 0 for layer in told.layers for size in layer.cache)
    assert min(*told.device_compute, *told.host_compute[1], projector.compute, 0) == 0


def test_a_type_of_a_later_engine_is_estimated_as_f16() -> None:
    later = estimate(header(), {"cache-type-k": "q2_9"}, [4096])

    assert later.layers == estimate(header(), {}, [4096]).layers
