"""What a model keeps of its context: bytes of each layer's cache, as llama.cpp has them. Pure.

Exact for the architectures named here, and held against the engine in
tests/process/test_kv_cache_exactly.py. For any other one, full attention is assumed on each layer,
which is the most that it can be, and `CacheLayout.exact` is False.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

from models_registry.gguf.header import Header

CELLS_PADDED_TO = 256
STATE_BYTES = 4
"""Of one element of a recurrent state: it is always f32."""

CACHE_TYPES = {
    "f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "q8_0": (32, 34), "q4_0": (32, 18),
    "q4_1": (32, 20), "iq4_nl": (32, 18), "q5_0": (32, 22), "q5_1": (32, 24),
}  # fmt: skip
"""(elements in a block, bytes of a block)"""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Elements that one layer keeps: of keys and values for each cell, of a state for each slot.
    `window` is how many tokens back it looks, 0 for all."""

    keys: int = 0
    values: int = 0
    window: int = 0
    state: int = 0


@dataclass(frozen=True, slots=True)
class CacheLayout:
    layers: tuple[LayerCache, ...]
    exact: bool


# How much it is -------------------------------------------------------------------------------


def cache_bytes(
    header: Header,
    *,
    context: int,
    slots: int,
    unified: bool = False,
    type_k: str = "f16",
    type_v: str = "f16",
    ubatch: int = 512,
    swa_full: bool = False,
    flash: bool = True,
) -> tuple[int, ...]:
    """Of each block, for `context` tokens over all slots together. `unified`: the slots share one
    cache. `flash`: flash attention is on. Raises UnreadableHeader, and KeyError for a type that is
    not in CACHE_TYPES."""
    layers = cache_layout(header).layers
    cells = cells_of(context, slots, unified=unified)
    widest = max((layer.values for layer in layers), default=0)

    def of(layer: LayerCache) -> int:
        window = 0 if swa_full else layer.window
        own = seen_by(window, cells, slots, unified=unified, ubatch=ubatch)
        # Without flash attention each layer's values are as wide as the widest layer's.
        values = layer.values if flash or not layer.values else widest
        rows = _row(type_k, layer.keys) + _row(type_v, values)
        return (1 if unified else slots) * own * rows + slots * STATE_BYTES * layer.state

    return tuple(of(layer) for layer in layers)


def cells_of(context: int, slots: int, *, unified: bool) -> int:
    """Tokens that each cache has room for: the slots' own, or the one that they share."""
    whole = _padded(context)
    return whole if unified else _padded(whole // slots)


def seen_by(window: int, cells: int, slots: int, *, unified: bool, ubatch: int) -> int:
    """Cells of a layer that looks `window` tokens back, of `cells` at most; 0 is all of them."""
    if not window:
        return cells
    return _padded(min(cells, window * (slots if unified else 1) + ubatch))


def _padded(tokens: int) -> int:
    return -(-tokens // CELLS_PADDED_TO) * CELLS_PADDED_TO


def _row(cache_type: str, elements: int) -> int:
    block, per_block = CACHE_TYPES[cache_type]
    return -(-elements // block) * per_block


# What each layer keeps ------------------------------------------------------------------------

_ORDINARY = {
    "arcee", "baichuan", "bailingmoe", "bitnet", "bloom", "chatglm", "codeshell", "command-r",
    "dbrx", "deci", "deepseek", "deepseek2", "dots1", "ernie4_5", "ernie4_5-moe", "exaone",
    "falcon", "gemma", "glm4", "gpt2", "gptneox", "granite", "granitemoe", "grok", "hunyuan-dense",
    "hunyuan-moe", "internlm2", "jais", "llama", "minicpm", "mistral3", "mpt", "nemotron", "olmo",
    "olmoe", "openelm", "orion", "phi2", "phi3", "phimoe", "qwen", "qwen2", "qwen2moe", "qwen2vl",
    "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm",
    "starcoder", "starcoder2", "xverse",
}  # fmt: skip
"""Attention over the whole context on each layer."""

_ENCODERS = {
    "bert", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada",
    "llada-moe", "modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1",
    "wavtokenizer-dec",
}  # fmt: skip
"""They see their whole input at once, and keep nothing."""

_WINDOWED = {
    "cohere2": (4, 0), "gemma2": (2, 4096), "gemma3": (6, 0), "gemma3n": (5, 0), "gemma4": (1, 0),
    "gpt-oss": (2, 0), "olmo2": (4, 0),
}  # fmt: skip
"""(every which layer looks at the whole context, and the window of the others where the header
has none). A header may have a pattern of its own."""

_RECURRENT = {"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"}
_RECURRENT_WITHOUT_HEADS = {"granitehybrid", "jamba", "lfm2", "lfm2moe"}
"""A layer without heads for keys has a state."""
_RECURRENT_BY_INTERVAL = {"qwen35", "qwen35moe", "qwen3next"}
"""All but every fourth layer have a state, where the header does not say which."""
_BOTH_ON_EACH_LAYER = {"falcon-h1"}

_MORE_THAN_ATTENTION = (
    "attention.compress", "attention.indexer", "attention.sliding_window", "attention.shared_kv",
    "decoder_block_count", "full_attention_interval", "kda.", "nextn_predict_layers", "shortconv.",
    "ssm.", "token_shift_count", "wkv.",
)  # fmt: skip
"""Beginnings of keys that an ordinary model does not have."""
_WINDOW_NOT_USED = {"phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe"}
"""Their headers may have a window that llama.cpp does not heed."""


def cache_layout(header: Header) -> CacheLayout:
    """Raises UnreadableHeader where the header lacks what its architecture must say."""
    architecture = header.architecture
    blocks = range(header.block_count)
    if architecture in _ENCODERS:
        return CacheLayout(tuple(LayerCache() for _ in blocks), exact=True)
    if architecture in _RECURRENT:
        kept = LayerCache(state=_state(header))
        return CacheLayout(tuple(kept for _ in blocks), exact=True)
    attention = _attention(header)
    if (recurrent := _recurrent_layers(header)) is not None:
        return _hybrid(header, attention, recurrent)
    if architecture in _WINDOWED:
        return _windowed(header, attention)
    return CacheLayout(tuple(attention), exact=_is_ordinary(header))


def _attention(header: Header) -> list[LayerCache]:
    heads = header.per_block("attention.head_count")
    heads_kv = (
        header.per_block("attention.head_count_kv")
        if header.has("attention.head_count_kv")
        else heads
    )
    each = header.number("embedding_length") // max(heads[0], 1) if heads else 0
    keys = header.number("attention.key_length", each)
    values = header.number("attention.value_length", each)
    if header.has("attention.key_length_mla"):
        values = 0  # the values are a part of the keys' row
    return [LayerCache(keys * count, values * count) for count in heads_kv]


def _is_ordinary(header: Header) -> bool:
    if header.architecture not in _ORDINARY:
        return False
    prefix = f"{header.architecture}."
    keys = [name.removeprefix(prefix) for name in (*header.values, *header.lengths)]
    if header.architecture in _WINDOW_NOT_USED:
        keys = [key for key in keys if not key.startswith("attention.sliding_window")]
    return not any(key.startswith(_MORE_THAN_ATTENTION) for key in keys)


# Windows


def _windowed(header: Header, attention: Sequence[LayerCache]) -> CacheLayout:
    every, default = _WINDOWED[header.architecture]
    window = header.number("attention.sliding_window", default)
    if not window:
        return CacheLayout(tuple(attention), exact=True)
    key = "attention.sliding_window_pattern"
    if isinstance(header.values.get(f"{header.architecture}.{key}"), list):
        looks_back = [bool(each) for each in header.per_block(key)]
    else:
        every = header.number(key, every)
        looks_back = [every == 0 or block % every < every - 1 for block in range(len(attention))]
    owners = _cache_owners(header)
    layers = [
        (_within(header, layer, window) if back else layer) if block < owners else LayerCache()
        for block, (layer, back) in enumerate(zip(attention, looks_back, strict=True))
    ]
    return CacheLayout(tuple(layers), exact=True)


def _within(header: Header, layer: LayerCache, window: int) -> LayerCache:
    """Layers with a window may have heads of another size."""
    if not header.has("attention.key_length_swa"):
        return LayerCache(layer.keys, layer.values, window)
    keys, values = header.number("attention.key_length"), header.number("attention.value_length")
    heads = layer.keys // max(keys, 1)
    within = header.number("attention.key_length_swa")
    values = header.number("attention.value_length_swa", values)
    return LayerCache(heads * within, heads * values, window)


def _cache_owners(header: Header) -> int:
    """The layers behind these use the caches of the layers before."""
    if header.architecture == "gemma3n":
        return 20
    return header.block_count - header.number("attention.shared_kv_layers", 0)


# States


def _recurrent_layers(header: Header) -> list[bool] | None:
    """None for an architecture that has none."""
    architecture = header.architecture
    if architecture in _BOTH_ON_EACH_LAYER:
        return list(repeat(True, header.block_count))
    if architecture in _RECURRENT_WITHOUT_HEADS:
        return [count == 0 for count in header.per_block("attention.head_count_kv")]
    if architecture in _RECURRENT_BY_INTERVAL:
        if header.has("attention.recurrent_layers"):
            return [bool(each) for each in header.per_block("attention.recurrent_layers")]
        every = max(header.number("full_attention_interval", 4), 1)
        return [(block + 1) % every != 0 for block in range(header.block_count)]
    return None


def _hybrid(
    header: Header, attention: Sequence[LayerCache], recurrent: Sequence[bool]
) -> CacheLayout:
    state = _state(header)
    both = header.architecture in _BOTH_ON_EACH_LAYER
    layers = [
        LayerCache(layer.keys, layer.values, state=state)
        if both
        else (LayerCache(state=state) if has_state else layer)
        for layer, has_state in zip(attention, recurrent, strict=True)
    ]
    # Layers that only predict further tokens have no cache of their own until they are used.
    return CacheLayout(tuple(layers), exact=not header.has("nextn_predict_layers"))


def _state(header: Header) -> int:
    """Elements that a recurrent layer keeps for each slot."""
    if header.has("wkv.head_size"):
        shifts = 1 if header.architecture in ("arwkv7", "rwkv6qwen2") else 2
        shifts = header.number("token_shift_count", shifts)
        return header.number("embedding_length") * (shifts + header.number("wkv.head_size"))
    if header.has("shortconv.l_cache"):
        return header.number("embedding_length") * max(header.number("shortconv.l_cache") - 1, 0)
    inner, state = header.number("ssm.inner_size"), header.number("ssm.state_size")
    groups = header.number("ssm.group_count", 0)
    convolved = max(header.number("ssm.conv_kernel") - 1, 0) * (inner + 2 * groups * state)
    return convolved + inner * state
