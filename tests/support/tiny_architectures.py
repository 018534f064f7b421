"""Tiny random models of several architectures, for what depends on the architecture.

Under SmolLM2's tokenizer, as in tiny_model.py: the engine loads each in half a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from tests.support.made_once import CACHE, made_once
from tests.support.tiny_model import tokenizer, tokens

FORMAT = 1
"""Raise it when what is written below changes: files in the cache are then made anew."""
WIDTH, HEADS, FEED_FORWARD = 64, 4, 96
HEAD = WIDTH // HEADS
WIDE = 2 * HEAD
"""A size of heads that is not the width over their number."""

Shapes = dict[str, tuple[int, ...]]
Value = int | float | list[int] | list[bool]


NORM: Shapes = {"output_norm.weight": (WIDTH,)}


@dataclass(frozen=True)
class Kind:
    architecture: str
    values: Mapping[str, Value]
    layers: tuple[Shapes, ...]
    """Of each block, by the tensor's name: its shape, the longest side first as numpy has it."""
    outside: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: dict(NORM))


def tiny_of(kind: str) -> Path:
    """The file, made once."""
    path = CACHE / f"{kind}-v{FORMAT}.gguf"
    return made_once(path, lambda draft: _write(draft, path.stem, KINDS[kind]))


def _write(path: Path, name: str, kind: Kind) -> None:
    writer = GGUFWriter(path, kind.architecture)
    writer.add_name(name)
    writer.add_uint32("general.file_type", 1)
    for key, value in kind.values.items():
        _add(writer, f"{kind.architecture}.{key}", value)
    for key, value, form, inner in tokenizer():
        writer.add_key_value(key, value, form, inner)
    for each, tensor in _tensors(kind).items():
        writer.add_tensor(each, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: GGUFWriter, key: str, value: Value) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def _tensors(kind: Kind) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def filled(shape: tuple[int, ...]) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32) * np.float32(0.05)

    words = filled((len(tokens()), WIDTH)).astype(np.float16)
    found = {"token_embd.weight": words}
    found |= {name: filled(shape) for name, shape in kind.outside.items()}
    for number, layer in enumerate(kind.layers):
        found |= {f"blk.{number}.{name}": filled(shape) for name, shape in layer.items()}
    return found


# What each is made of -------------------------------------------------------------------------


def _common(blocks: int, **values: Value) -> dict[str, Value]:
    common: dict[str, Value] = {
        "block_count": blocks, "context_length": 4096, "embedding_length": WIDTH,
        "feed_forward_length": FEED_FORWARD, "attention.head_count": HEADS,
        "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5,
        "vocab_size": len(tokens()),
    }  # fmt: skip
    return common | {key.replace("__", "."): value for key, value in values.items()}


def _attention(kv_heads: int = 2, head: int = HEAD) -> Shapes:
    return {
        "attn_norm.weight": (WIDTH,),
        "attn_q.weight": (HEADS * head, WIDTH),
        "attn_k.weight": (kv_heads * head, WIDTH),
        "attn_v.weight": (kv_heads * head, WIDTH),
        "attn_output.weight": (WIDTH, HEADS * head),
    }


FFN: Shapes = {
    "ffn_norm.weight": (WIDTH,),
    "ffn_gate.weight": (FEED_FORWARD, WIDTH),
    "ffn_up.weight": (FEED_FORWARD, WIDTH),
    "ffn_down.weight": (WIDTH, FEED_FORWARD),
}
HEAD_NORMS: Shapes = {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
WIDE_NORMS: Shapes = {"attn_q_norm.weight": (WIDE,), "attn_k_norm.weight": (WIDE,)}
WHOLE_NORMS: Shapes = {
    "attn_q_norm.weight": (HEADS * HEAD,),
    "attn_k_norm.weight": (2 * HEAD,),
}
AFTER: Shapes = {"post_attention_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)}
WIDE_HEADS: dict[str, Value] = {"attention__key_length": WIDE, "attention__value_length": WIDE}


def _without(shapes: Shapes, *names: str) -> Shapes:
    return {name: shape for name, shape in shapes.items() if name not in names}


INNER, STATE, CONVOLVED, RANK, GROUPS = 2 * WIDTH, 128, 4, 4, 2
MAMBA_VALUES: dict[str, Value] = {
    "ssm__inner_size": INNER, "ssm__state_size": STATE, "ssm__conv_kernel": CONVOLVED,
    "ssm__time_step_rank": RANK,
}  # fmt: skip
MAMBA: Shapes = {
    "attn_norm.weight": (WIDTH,),
    "ssm_in.weight": (2 * INNER, WIDTH),
    "ssm_conv1d.weight": (INNER, CONVOLVED),
    "ssm_conv1d.bias": (INNER,),
    "ssm_x.weight": (RANK + 2 * STATE, INNER),
    "ssm_dt.weight": (INNER, RANK),
    "ssm_dt.bias": (INNER,),
    "ssm_a": (INNER, STATE),
    "ssm_d": (INNER,),
    "ssm_out.weight": (WIDTH, INNER),
}
MAMBA2: Shapes = {
    "attn_norm.weight": (WIDTH,),
    "ssm_in.weight": (2 * INNER + 2 * GROUPS * STATE + HEADS, WIDTH),
    "ssm_conv1d.weight": (INNER + 2 * GROUPS * STATE, CONVOLVED),
    "ssm_conv1d.bias": (INNER + 2 * GROUPS * STATE,),
    "ssm_dt.bias": (HEADS,),
    "ssm_a": (HEADS, 1),
    "ssm_d": (HEADS, 1),
    "ssm_norm.weight": (GROUPS, INNER // GROUPS),
    "ssm_out.weight": (WIDTH, INNER),
}
SHORT: Shapes = {
    "attn_norm.weight": (WIDTH,),
    "shortconv.conv.weight": (WIDTH, 3),
    "shortconv.in_proj.weight": (3 * WIDTH, WIDTH),
    "shortconv.out_proj.weight": (WIDTH, WIDTH),
}

LATENT, TURNED, PLAIN = 32, 8, 16
"""Of attention by a latent vector: its width, and the widths of a key's parts."""
BY_LATENT: Shapes = {
    "attn_norm.weight": (WIDTH,),
    "attn_q_a.weight": (48, WIDTH),
    "attn_q_a_norm.weight": (48,),
    "attn_q_b.weight": (HEADS * (PLAIN + TURNED), 48),
    "attn_kv_a_mqa.weight": (LATENT + TURNED, WIDTH),
    "attn_kv_a_norm.weight": (LATENT,),
    "attn_k_b.weight": (HEADS, LATENT, PLAIN),
    "attn_v_b.weight": (HEADS, HEAD, LATENT),
    "attn_output.weight": (WIDTH, HEADS * HEAD),
}

KINDS = {
    "qwen3": Kind(
        "qwen3", _common(3, **WIDE_HEADS), (_attention(head=WIDE) | WIDE_NORMS | FFN,) * 3
    ),
    "deci": Kind(
        "deci",
        _common(3, attention__head_count_kv=[1, 4, 2], rope__dimension_count=HEAD),
        tuple(_attention(kv_heads=heads) | FFN for heads in (1, 4, 2)),
    ),
    "gemma2": Kind(
        "gemma2",
        _common(4, **WIDE_HEADS, attention__sliding_window=512),
        (_attention(head=WIDE) | AFTER | FFN,) * 4,
    ),
    "gemma3": Kind(
        "gemma3",
        _common(7, **WIDE_HEADS, attention__sliding_window=256),
        (_attention(head=WIDE) | WIDE_NORMS | AFTER | FFN,) * 7,
    ),
    "cohere2": Kind(
        "cohere2",
        _common(5, attention__sliding_window=300, logit_scale=0.25,
                attention__layer_norm_epsilon=1e-5, rope__dimension_count=HEAD),
        (_without(_attention() | FFN, "ffn_norm.weight"),) * 5,
    ),
    "olmo2": Kind(
        "olmo2",
        _common(4, attention__sliding_window=700),
        (_without(_attention() | WHOLE_NORMS | AFTER | FFN, "attn_norm.weight", "ffn_norm.weight"),)
        * 4,
        NORM | {"output.weight": (len(tokens()), WIDTH)},
    ),
    "deepseek2": Kind(
        "deepseek2",
        _common(2, attention__head_count_kv=1, attention__q_lora_rank=48,
                attention__kv_lora_rank=LATENT, attention__key_length=LATENT + TURNED,
                attention__value_length=LATENT, attention__key_length_mla=PLAIN + TURNED,
                attention__value_length_mla=HEAD, rope__dimension_count=TURNED,
                leading_dense_block_count=2, expert_count=2, expert_used_count=1,
                expert_shared_count=1, expert_feed_forward_length=32, expert_weights_scale=1.0),
        (BY_LATENT | FFN,) * 2,
        NORM | {"output.weight": (len(tokens()), WIDTH)},
    ),
    "mamba": Kind(
        "mamba",
        _common(3, **MAMBA_VALUES, attention__head_count=0, attention__head_count_kv=0,
                feed_forward_length=0),
        (MAMBA,) * 3,
    ),
    "mamba2": Kind(
        "mamba2",
        _common(3, **MAMBA_VALUES, ssm__group_count=GROUPS, attention__head_count=0,
                attention__head_count_kv=0, feed_forward_length=0),
        (MAMBA2,) * 3,
    ),
    "granitehybrid": Kind(
        "granitehybrid",
        _common(4, **MAMBA_VALUES, ssm__group_count=GROUPS, attention__head_count_kv=[0, 2, 0, 0],
                logit_scale=1.0, attention__scale=1.0, residual_scale=1.0, embedding_scale=1.0),
        (MAMBA2 | FFN, _attention() | FFN, MAMBA2 | FFN, MAMBA2 | FFN),
    ),
    "falcon-h1": Kind(
        "falcon-h1",
        _common(2, **MAMBA_VALUES, ssm__group_count=GROUPS),
        (MAMBA2 | _attention() | _without(FFN, "ffn_norm.weight") | {"ffn_norm": (WIDTH,)},) * 2,
    ),
    "lfm2": Kind(
        "lfm2",
        _common(3, attention__head_count_kv=[0, 2, 0], shortconv__l_cache=3),
        (SHORT | FFN, _attention() | HEAD_NORMS | FFN, SHORT | FFN),
        {"token_embd_norm.weight": (WIDTH,)},
    ),
}  # fmt: skip
