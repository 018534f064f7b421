"""A model's header, as other code asks for it. The files are read by a program of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models_registry.naming import shard_names

PROGRAM = Path(__file__).with_name("header_child.py")
READ_SECONDS = 10.0
MOST_LAYERS = 1 << 10
"""llama.cpp has room for half as many."""
MOST_CONTEXT = 1 << 28
"""Tokens. The longest known have a twentieth of it."""
MOST_KEPT = 256
"""Headers in memory; one of a large model is some hundred KiB."""

_EMBEDDINGS = "token_embd.weight"
_BLOCK = re.compile(r"blk\.(\d{1,6})\.")

Placed = tuple[tuple[str, bool], ...]
"""Patterns of tensors' names in their order, each with whether it places them on the host."""


class UnreadableHeader(Exception):
    """The files cannot be what they claim; the message is for people."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Its bytes begin at `begin` of the file number `shard`, counted from 0."""

    name: str
    kind: str
    shape: tuple[int, ...]
    begin: int
    size: int
    shard: int

    @property
    def block(self) -> int | None:
        """The layer it belongs to; None outside the layers."""
        found = _BLOCK.match(self.name)
        return int(found[1]) if found else None


@dataclass(frozen=True)
class Header:
    """`mapped[n]`: bytes of the files that the host maps with `n` layers, counted from the last, on
    other devices; the output layer counts as one of them. `values` are the header's, less long
    arrays, of which `lengths` tells how long they are."""

    architecture: str
    values: Mapping[str, Any]
    lengths: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    mapped: tuple[int, ...]
    block_count: int = field(default=0)
    layers: tuple[int, ...] = field(default=())
    """Bytes of the tensors of each block in its order, and last those of the output layer, which
    are the token embeddings' where the model has no output tensor of its own."""
    input_bytes: int = 0
    """Bytes of what stands before the layers and is the host's: the token embeddings."""

    @property
    def weights(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def largest(self) -> tuple[int, ...]:
        """Bytes of the largest tensor of each of `layers`."""
        sizes = [0] * (self.block_count + 1)
        tied = _is_tied(self.tensors)
        for tensor in self.tensors:
            layer = _layer_of(tensor, self.block_count)
            if layer is None and tied and tensor.name == _EMBEDDINGS:
                layer = self.block_count
            if layer is not None:
                sizes[layer] = max(sizes[layer], tensor.size)
        return tuple(sizes)

    @property
    def vocabulary(self) -> int:
        """Tokens; 0 for a file without a tokenizer."""
        return self.lengths.get("tokenizer.ggml.tokens", 0) or self.number("vocab_size", 0)

    @property
    def context_train(self) -> int:
        """Tokens. Raises UnreadableHeader, also for more than any model was trained with: the
        engine counts them in 31 bits, and ends at once."""
        tokens = self.number("context_length")
        if tokens > MOST_CONTEXT:
            raise UnreadableHeader(
                f"its header claims a context of {tokens:,} tokens, and no model has more than "
                f"{MOST_CONTEXT:,}: get the file again, from who made it"
            )
        return tokens

    def mapped_bytes(self, device_layers: int | None) -> int:
        """None: there is no device but the host."""
        return self.mapped[min(device_layers or 0, len(self.mapped) - 1)]

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self.values

    def number(self, key: str, default: int | None = None) -> int:
        """The architecture's own value. Raises UnreadableHeader without one and a default."""
        found = self.values.get(f"{self.architecture}.{key}", default)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 1 << 32:
            raise UnreadableHeader(f"its header has no number {self.architecture}.{key}: {found}")
        return found

    def per_block(self, key: str, default: int | None = None) -> tuple[int, ...]:
        """One number for each block, of a value that may be one for all. Raises as `number`."""
        name = f"{self.architecture}.{key}"
        found = self.values.get(name)
        if not isinstance(found, list):
            return (self.number(key, default),) * self.block_count
        if len(found) < self.block_count or not all(
            isinstance(each, int) and 0 <= each < 1 << 32 for each in found
        ):
            raise UnreadableHeader(f"its header has {len(found)} unfit values of {name}")
        return tuple(int(each) for each in found[: self.block_count])


Stamp = tuple[tuple[str, int, int], ...]
_headers: dict[tuple[Stamp, Placed], Header | UnreadableHeader] = {}


def read_header(path: Path, *, placed: Placed = (), seconds: float = READ_SECONDS) -> Header:
    """Of the model whose first file is `path`. Raises UnreadableHeader. Read again only when one
    of the files has changed; it blocks meanwhile."""
    shards = [path.with_name(name) for name in shard_names(path.name)]
    try:
        states = [(shard, shard.stat()) for shard in shards]
    except OSError as failure:
        raise UnreadableHeader(f"{failure.filename}: {failure.strerror}") from failure
    key = (tuple((os.fspath(file), of.st_size, of.st_mtime_ns) for file, of in states), placed)
    if key not in _headers:
        if len(_headers) >= MOST_KEPT:
            _headers.clear()
        _headers[key] = _read(shards, placed, seconds)
    found = _headers[key]
    if isinstance(found, UnreadableHeader):
        raise UnreadableHeader(str(found))
    return found


def _read(shards: Sequence[Path], placed: Placed, seconds: float) -> Header | UnreadableHeader:
    """Raises UnreadableHeader where another attempt may find more; the returned one stands."""
    asked = {"shards": [os.fspath(shard) for shard in shards], "placed": placed}
    try:
        code, told, complaint = _run(json.dumps(asked), seconds)
    except subprocess.TimeoutExpired as late:
        raise UnreadableHeader(f"its header was not read within {seconds:g} s") from late
    if code != 0:
        return UnreadableHeader(complaint.strip() or f"reading its header ended with {code}")
    try:
        return header_of(json.loads(told))
    except UnreadableHeader as failure:
        return failure


def _run(asked: str, seconds: float) -> tuple[int, str, str]:
    """The program's exit code and what it printed. Raises TimeoutExpired; it is gone then too."""
    its_stdin, our_end = os.pipe()  # its end means that we have gone
    try:
        process = subprocess.Popen(
            (sys.executable, "-I", os.fspath(PROGRAM), asked),
            stdin=its_stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        with process:
            try:
                told, complaint = process.communicate(timeout=seconds)
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
    finally:
        os.close(its_stdin)
        os.close(our_end)
    return process.returncode, told, complaint


def header_of(told: Mapping[str, Any]) -> Header:
    """Of what the program printed. Raises UnreadableHeader."""
    values = told["values"]
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise UnreadableHeader("its header names no architecture")
    tensors = tuple(
        Tensor(name, kind, tuple(shape), begin, size, shard)
        for name, kind, shape, begin, size, shard in told["tensors"]
    )
    blocks = _block_count(architecture, values, tensors)
    layers, input_bytes = _parts(tensors, blocks)
    return Header(
        architecture, values, told["lengths"], tensors, tuple(told["mapped"]),
        blocks, layers, input_bytes,
    )  # fmt: skip


def _block_count(architecture: str, values: Mapping[str, Any], tensors: Sequence[Tensor]) -> int:
    present = max((each.block for each in tensors if each.block is not None), default=-1) + 1
    claimed = values.get(f"{architecture}.block_count", present)
    if not isinstance(claimed, int) or not present <= claimed <= MOST_LAYERS:
        raise UnreadableHeader(f"its header claims {claimed} layers, its tensors name {present}")
    return claimed


def _parts(tensors: Sequence[Tensor], blocks: int) -> tuple[tuple[int, ...], int]:
    """Bytes of each layer, the output layer last; and of what stands before them."""
    layers = [0] * (blocks + 1)
    before = 0
    tied = _is_tied(tensors)
    for tensor in tensors:
        layer = _layer_of(tensor, blocks)
        if layer is not None:
            layers[layer] += tensor.size
            continue
        before += tensor.size
        if tied and tensor.name == _EMBEDDINGS:
            layers[blocks] += tensor.size
    return tuple(layers), before


def _is_tied(tensors: Sequence[Tensor]) -> bool:
    """Whether the token embeddings are the output layer as well."""
    return not any(tensor.name == "output.weight" for tensor in tensors)


def _layer_of(tensor: Tensor, blocks: int) -> int | None:
    """None for what stands before the layers."""
    if tensor.block is not None:
        return tensor.block
    if tensor.name.startswith("rope"):
        return 0
    return blocks if tensor.name.startswith(("output", "cls")) else None
