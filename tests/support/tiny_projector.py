"""A small projector (mmproj) with random weights: what lets a language model see. Made once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from tests.support.made_once import CACHE, made_once

FORMAT = 1
IMAGE, PATCH = 112, 14
"""Pixels on an edge, of a picture and of what becomes one token."""


def tiny_projector(embedding: int = 576, *, width: int = 128, blocks: int = 4) -> Path:
    """For a language model whose embeddings have `embedding` numbers, as SmolLM2's have."""
    path = CACHE / f"projector-v{FORMAT}-{embedding}-{width}-{blocks}.gguf"
    return made_once(path, lambda draft: _write(draft, embedding, width, blocks))


def _write(path: Path, embedding: int, width: int, blocks: int) -> None:
    writer = GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    numbers = {
        "image_size": IMAGE, "patch_size": PATCH, "embedding_length": width,
        "feed_forward_length": 4 * width, "projection_dim": embedding, "block_count": blocks,
        "attention.head_count": 4,
    }  # fmt: skip
    for key, number in numbers.items():
        writer.add_uint32(f"clip.vision.{key}", number)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    for key in ("image_mean", "image_std"):
        writer.add_array(f"clip.vision.{key}", [0.5, 0.5, 0.5])
    for name, weights in _tensors(embedding, width, blocks).items():
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(embedding: int, width: int, blocks: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32) * np.float32(0.05)

    def layer(name: str, out: int, into: int) -> dict[str, np.ndarray]:
        return {f"{name}.weight": matrix(out, into), f"{name}.bias": matrix(out)}

    def norm(name: str) -> dict[str, np.ndarray]:
        return {f"{name}.weight": matrix(width), f"{name}.bias": matrix(width)}

    found = {
        "v.patch_embd.weight": matrix(width, 3, PATCH, PATCH),
        "v.class_embd": matrix(width),
        "v.position_embd.weight": matrix((IMAGE // PATCH) ** 2 + 1, width),
        **norm("v.pre_ln"), **norm("v.post_ln"),
        **layer("mm.0", embedding, width), **layer("mm.2", embedding, embedding),
    }  # fmt: skip
    for number in range(blocks):
        block = f"v.blk.{number}"
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            found |= layer(f"{block}.{part}", width, width)
        found |= norm(f"{block}.ln1") | norm(f"{block}.ln2")
        found |= layer(f"{block}.ffn_up", 4 * width, width)
        found |= layer(f"{block}.ffn_down", width, 4 * width)
    return found
