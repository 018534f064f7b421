"""What a child takes on the host beside what its engine reports: bytes, all of them counted. Pure.

The engine fills its prompt cache and its checkpoints as it is used; neither is allocated when it
says `ready`, and both are bounded by options that every preset is started with.
"""

from __future__ import annotations

from collections.abc import Mapping

from models_registry.gguf.header import Header, UnreadableHeader
from models_registry.gguf.kv_cache import CACHE_TYPES, STATE_BYTES, cache_layout

MIB = 1 << 20
PROCESS = 32 * MIB
"""Code, tokenizer, threads, and what requests leave with its allocator: measured as what is
resident beside its buffers and its files once it has been busy. 16 MiB of it are code, which all
children share; the rest grows from 11 MiB to 16, and to 27 after several long prompts at once."""
CACHE_RAM_UNBOUNDED = 8192
"""MiB: llama.cpp's own default, for a preset that lets the cache grow without a bound."""


def unreported(options: Mapping[str, str], header: Header | None) -> int:
    """On the host. `header` None: the model keeps no checkpoints that are known."""
    return PROCESS + prompt_cache(options) + checkpoints(options, header)


def prompt_cache(options: Mapping[str, str]) -> int:
    asked = int(options.get("cache-ram", CACHE_RAM_UNBOUNDED))
    return (asked if asked >= 0 else CACHE_RAM_UNBOUNDED) * MIB


def checkpoints(options: Mapping[str, str], header: Header | None) -> int:
    """Of each slot, of the parts of its context that cannot be rolled back: what layers with a
    window keep, and states. The engine makes them for such models alone."""
    most = max(0, int(options.get("swa-checkpoints", "32")))
    if header is None or not most:
        return 0
    try:
        layers = cache_layout(header).layers
    except UnreadableHeader:
        return 0
    keys, values = (
        _per_element(options.get(key, "f16")) for key in ("cache-type-k", "cache-type-v")
    )
    windows = options.get("swa-full") != "true"
    one = sum(
        layer.state * STATE_BYTES
        + (layer.window * round(layer.keys * keys + layer.values * values) if windows else 0)
        for layer in layers
    )
    return max(1, int(options.get("parallel", "1"))) * most * one


def _per_element(cache_type: str) -> float:
    elements, size = CACHE_TYPES.get(cache_type, (1, 4))
    return size / elements
