"""Thousands of GGUFs for tests and benchmarks: sparse, of small vocabularies, quickly made."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

TOKENS = 512
SHAPES = ((8, 512), (16, 1024), (24, 2048), (32, 4096))
"""(layers, width): the files take turns."""

_STRING, _ARRAY, _U32, _F32, _I32 = 8, 9, 4, 6, 5
_KINDS = {"F32": (0, 1, 4), "Q4_K": (12, 256, 144)}
_ALIGNMENT = 32
_MARK = "model 000000"


def many_models(folder: Path, count: int, *, template: str = "") -> list[Path]:
    """`folder`/model-000000.gguf and so on; each has a name of its own in its header."""
    folder.mkdir(parents=True, exist_ok=True)
    headers = [header(layers, width, template=template) for layers, width in SHAPES]
    paths = []
    for number in range(count):
        data, size = headers[number % len(headers)]
        path = folder / f"model-{number:06d}.gguf"
        with path.open("wb") as file:
            file.write(data.replace(_MARK.encode(), f"model {number:06d}".encode()))
            file.truncate(size)
        paths.append(path)
    return paths


def parameters(layers: int, width: int) -> int:
    """Of such a file."""
    return sum(rows * columns for _, _, columns, rows in _tensors(layers, width))


def header(layers: int, width: int, *, template: str = "") -> tuple[bytes, int]:
    """All that stands before the weights, and the size of the file with them."""
    pairs = list(_pairs(layers, width, template))
    infos, end = _infos(layers, width)
    counts = struct.pack("<4sIQQ", b"GGUF", 3, infos[1], len(pairs))
    data = counts + b"".join(pairs) + infos[0]
    return data, -(-len(data) // _ALIGNMENT) * _ALIGNMENT + end


def _pairs(layers: int, width: int, template: str) -> Iterator[bytes]:
    yield _pair("general.architecture", _STRING, _text("llama"))
    yield _pair("general.name", _STRING, _text(_MARK))
    yield _pair("general.license", _STRING, _text("apache-2.0"))
    yield _pair("general.file_type", _U32, struct.pack("<I", 15))
    for key, number in {
        "block_count": layers, "context_length": 4096, "embedding_length": width,
        "feed_forward_length": 4 * width, "attention.head_count": 32,
        "attention.head_count_kv": 8, "vocab_size": TOKENS, "rope.dimension_count": 128,
    }.items():  # fmt: skip
        yield _pair(f"llama.{key}", _U32, struct.pack("<I", number))
    yield _pair("llama.attention.layer_norm_rms_epsilon", _F32, struct.pack("<f", 1e-5))
    yield _pair("tokenizer.ggml.model", _STRING, _text("gpt2"))
    words = b"".join(_text(f"word{number}") for number in range(TOKENS))
    yield _pair("tokenizer.ggml.tokens", _ARRAY, struct.pack("<IQ", _STRING, TOKENS) + words)
    kinds = struct.pack(f"<{TOKENS}i", *[1] * TOKENS)
    yield _pair("tokenizer.ggml.token_type", _ARRAY, struct.pack("<IQ", _I32, TOKENS) + kinds)
    if template:
        yield _pair("tokenizer.chat_template", _STRING, _text(template))


def _tensors(layers: int, width: int) -> Iterator[tuple[str, str, int, int]]:
    """(name, kind, columns, rows)"""
    yield "token_embd.weight", "Q4_K", width, TOKENS
    yield "output_norm.weight", "F32", width, 1
    for number in range(layers):
        for part, kind, columns, rows in (
            ("attn_norm", "F32", width, 1), ("ffn_norm", "F32", width, 1),
            ("attn_q", "Q4_K", width, width), ("attn_k", "Q4_K", width, width // 4),
            ("attn_v", "Q4_K", width, width // 4), ("attn_output", "Q4_K", width, width),
            ("ffn_gate", "Q4_K", width, 4 * width), ("ffn_up", "Q4_K", width, 4 * width),
            ("ffn_down", "Q4_K", 4 * width, width),
        ):  # fmt: skip
            yield f"blk.{number}.{part}.weight", kind, columns, rows


def _infos(layers: int, width: int) -> tuple[tuple[bytes, int], int]:
    """What the header says of each tensor, how many there are, and where the last one ends."""
    told, at, count = [], 0, 0
    for name, kind, columns, rows in _tensors(layers, width):
        number, block, per_block = _KINDS[kind]
        told.append(_text(name) + struct.pack("<IQQIQ", 2, columns, rows, number, at))
        size = columns * rows // block * per_block
        at += -(-size // _ALIGNMENT) * _ALIGNMENT
        count += 1
    return (b"".join(told), count), at


def _pair(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
