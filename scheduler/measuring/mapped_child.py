"""How many bytes of a model's files the engine maps for the host: a program of its own.

    python -I mapped_child.py '{"shards": ["/models/a.gguf"], "gpu_layers": 10, "placed": []}'

prints `{"mapped": 96574464}`. It reads a GGUF's header and its table of tensors, and no tensor. The
engine maps, of each file, all that lies between the first and the last tensor that the host uses;
which those are follows from the number of layers on other devices and from the patterns that place
single tensors. Run apart, on the standard
library alone, because the file may be anything: memory and time end with the process.
"""

from __future__ import annotations

import json
import os
import re
import resource
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MEMORY_LIMIT = 2 << 30
MOST_TENSORS = 1 << 20
MOST_KEYS = 1 << 20
LONGEST_STRING = 64 << 20
ALIGNMENT_KEY = b"general.alignment"

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_BLOCK = re.compile(r"blk\.(\d{1,6})\.")


class NotReadable(ValueError):
    """It is no GGUF that we know."""


@dataclass(frozen=True)
class Tensor:
    name: str
    begin: int
    end: int


Placed = Sequence[tuple[str, bool]]
"""Patterns of tensors' names in their order, each with whether it places them on the host."""


def mapped_bytes(
    files: Sequence[Sequence[Tensor]], gpu_layers: int | None, placed: Placed = ()
) -> int:
    """Over all shards. `gpu_layers` is how many layers, counted from the last, another device has;
    the output layer is the first of them. None: there is no other device."""
    if gpu_layers is None:
        return sum(_span(file) for file in files)
    numbers = [
        number for file in files for tensor in file if (number := _block(tensor)) is not None
    ]
    layers = max(numbers, default=-1) + 1
    first_elsewhere = max(0, layers + 1 - gpu_layers)
    patterns = [(re.compile(pattern), on_host) for pattern, on_host in placed]

    def on_host(tensor: Tensor) -> bool:
        for pattern, is_host in patterns:
            if pattern.search(tensor.name):
                return is_host
        return _layer(tensor, layers) < first_elsewhere

    return sum(_span(each for each in file if on_host(each)) for file in files)


def _span(tensors: Iterable[Tensor]) -> int:
    found = list(tensors)
    if not found:
        return 0
    return max(each.end for each in found) - min(each.begin for each in found)


def _layer(tensor: Tensor, layers: int) -> int:
    """-1 for what stands before the layers, and is always the host's."""
    number = _block(tensor)
    if number is not None:
        return number
    if tensor.name.startswith(("output", "cls")):
        return layers
    return 0 if tensor.name.startswith("rope") else -1


def _block(tensor: Tensor) -> int | None:
    found = _BLOCK.match(tensor.name)
    return int(found[1]) if found else None


# The file -----------------------------------------------------------------------------------


def tensors_of(file: BinaryIO, size: int) -> list[Tensor]:
    """Their places in the file. A tensor ends where the next one begins. Raises NotReadable."""
    if file.read(4) != b"GGUF":
        raise NotReadable("it does not begin as a GGUF")
    version, tensors, keys = _unpack(file, "<IQQ")
    if version not in (2, 3) or tensors > MOST_TENSORS or keys > MOST_KEYS:
        raise NotReadable(f"version {version}, {tensors} tensors, {keys} keys")
    alignment = 32
    for _ in range(keys):
        key = _string(file)
        (kind,) = _unpack(file, "<I")
        if key == ALIGNMENT_KEY and kind == 4:
            (alignment,) = _unpack(file, "<I")
        else:
            _skip(file, kind, size)
    places = sorted((offset, name) for name, offset in _infos(file, tensors))
    if alignment < 1:
        raise NotReadable("an alignment of nothing")
    data = -(-file.tell() // alignment) * alignment
    ends = [data + offset for offset, _ in places[1:]] + [size]
    found = [
        Tensor(name.decode(errors="replace"), data + offset, end)
        for (offset, name), end in zip(places, ends, strict=True)
    ]
    if not all(each.begin <= each.end <= size for each in found):
        raise NotReadable("a tensor lies outside the file")
    return found


def _infos(file: BinaryIO, tensors: int) -> Iterator[tuple[bytes, int]]:
    for _ in range(tensors):
        name = _string(file, 1 << 10)
        (dimensions,) = _unpack(file, "<I")
        if dimensions > 8:
            raise NotReadable(f"a tensor of {dimensions} dimensions")
        _unpack(file, f"<{dimensions}QI")
        (offset,) = _unpack(file, "<Q")
        yield name, offset


def _skip(file: BinaryIO, kind: int, size: int) -> None:
    if kind == _STRING:
        _string(file)
    elif kind == _ARRAY:
        inner, count = _unpack(file, "<IQ")
        if inner == _STRING:
            if count * 8 > size:
                raise NotReadable("an array longer than its file")
            for _ in range(count):
                _string(file)
        elif inner in _SIZES and count <= size:
            file.seek(count * _SIZES[inner], os.SEEK_CUR)
        else:
            raise NotReadable(f"an array of kind {inner}")
    elif kind in _SIZES:
        file.seek(_SIZES[kind], os.SEEK_CUR)
    else:
        raise NotReadable(f"a value of kind {kind}")


def _string(file: BinaryIO, longest: int = LONGEST_STRING) -> bytes:
    (length,) = _unpack(file, "<Q")
    if length > longest:
        raise NotReadable(f"a string of {length} bytes")
    found = file.read(length)
    if len(found) < length:
        raise NotReadable("it ends in the middle of a string")
    return found


def _unpack(file: BinaryIO, form: str) -> tuple[int, ...]:
    length = struct.calcsize(form)
    found = file.read(length)
    if len(found) < length:
        raise NotReadable("it ends too early")
    return struct.unpack(form, found)


def main(argv: list[str]) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    asked = json.loads(argv[0])
    files = []
    try:
        for path in asked["shards"]:
            with Path(path).open("rb", buffering=1 << 20) as file:
                files.append(tensors_of(file, os.fstat(file.fileno()).st_size))
        mapped = mapped_bytes(files, asked["gpu_layers"], asked["placed"])
    except (OSError, NotReadable, MemoryError, re.error) as failure:
        print(f"mapped_child: error: {failure}", file=sys.stderr)
        return 1
    print(json.dumps({"mapped": mapped}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
