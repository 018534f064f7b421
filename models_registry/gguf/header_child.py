"""What a model's files say of themselves, without their tensors: a program of its own.

    python -I header_child.py '{"shards": ["/models/a.gguf"], "placed": []}'

prints `{"values": …, "lengths": …, "tensors": …, "mapped": …}`. Run apart, on the standard library
alone, because a file may be anything: memory and time end with the process, which also ends when
its stdin does. Nothing that a file claims is believed before it is held against the file's size.

The engine maps, of each file, all that lies between the first and the last tensor that the host
uses. `mapped[n]` is how many bytes that is with `n` layers on other devices, counted from the last
one, the output layer being the first of them; `placed` are patterns of tensors' names in their
order, each with whether it places them on the host.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import stat
import struct
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import BinaryIO

MEMORY_LIMIT = 512 << 20
CPU_SECONDS = 5
MOST_KEYS, MOST_TENSORS, MOST_DIMENSIONS = 1 << 12, 1 << 13, 4
MOST_STRINGS = 1 << 21  # in all arrays: a vocabulary of 260,000 has twice as many merges
MOST_KEPT = 1 << 18  # elements of arrays and letters of texts whose values are kept
LONGEST_ARRAY = LONGEST_TEXT = 1 << 12  # of a longer one only the length is kept
LONGEST_NAME = 256  # the engine takes 63
MOST_LAYERS = 1 << 10
WINDOW = 1 << 20

_FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# number: (name, elements in a block, bytes of a block), as ggml has them
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4),
    27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}  # fmt: skip

_LENGTH = struct.Struct("<Q").unpack_from
_BLOCK = re.compile(r"blk\.(\d{1,6})\.")

Value = int | float | bool | str | list[int] | list[float] | list[bool] | list[str]


class NotReadable(ValueError):
    """It is no GGUF that we know; the text is a sentence's end: what is wrong with it."""


@dataclass(frozen=True)
class Tensor:
    name: str
    kind: str
    shape: tuple[int, ...]
    begin: int  # from the file's start
    size: int

    @property
    def end(self) -> int:
        return self.begin + self.size


@dataclass(frozen=True)
class Contents:
    """Of one file. `lengths` are those of the arrays whose values are not kept."""

    values: dict[str, Value]
    lengths: dict[str, int]
    tensors: list[Tensor]


# The file -----------------------------------------------------------------------------------


class _Reader:
    """A file read forwards, a window at a time. Raises NotReadable where it ends too early."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._window, self._at = b"", 0
        self._read = 0  # bytes of the file, the window's included
        self.strings_left = MOST_STRINGS
        self.kept_left = MOST_KEPT

    @property
    def position(self) -> int:
        return self._read - len(self._window) + self._at

    @property
    def left(self) -> int:
        return self._size - self.position

    def take(self, count: int) -> bytes:
        if count > len(self._window) - self._at:
            self._fill(count)
        begin = self._at
        self._at += count
        return self._window[begin : self._at]

    def skip(self, count: int) -> None:
        if count > self.left:
            raise NotReadable("it is cut off in its header")
        inside = len(self._window) - self._at
        if count <= inside:
            self._at += count
            return
        self._read += count - inside
        self._file.seek(self._read)
        self._window, self._at = b"", 0

    def skip_strings(self, count: int) -> None:
        self.strings_left -= count
        if self.strings_left < 0:
            raise NotReadable(f"it has arrays of more than {MOST_STRINGS} strings")
        while count:
            if len(self._window) - self._at < 8:
                self._fill(8)
            window, at, last = self._window, self._at, len(self._window) - 8
            while count and at <= last:
                at += 8 + _LENGTH(window, at)[0]
                count -= 1
            self._at = min(at, len(window))
            self.skip(at - self._at)

    def number(self, form: str = "Q") -> int:
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0])

    def name(self) -> str:
        length = self.number()
        if length > LONGEST_NAME:
            raise NotReadable(f"it has a name of {length} bytes")
        return self.take(length).decode(errors="replace")

    def _fill(self, count: int) -> None:
        if count > self.left:
            raise NotReadable("it is cut off in its header")
        rest = self._window[self._at :]
        more = self._file.read(max(WINDOW, count - len(rest)))
        self._read += len(more)
        self._window, self._at = rest + more, 0
        if len(self._window) < count:
            raise NotReadable("it became shorter while it was read")


def contents_of(file: BinaryIO, size: int) -> Contents:
    """Raises NotReadable."""
    reader = _Reader(file, size)
    tensors, keys = _counts(reader)
    values: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    for _ in range(keys):
        key = reader.name()
        if key in values or key in lengths:
            raise NotReadable(f"it says {key[:100]} twice")
        found = _value(reader)
        if isinstance(found, _Length):
            lengths[key] = found.count
        else:
            values[key] = found
    infos = list(_infos(reader, tensors))
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise NotReadable(f"its alignment is {alignment}")
    data = -(-reader.position // alignment) * alignment
    return Contents(values, lengths, _in_place(infos, data, alignment, size))


def _counts(reader: _Reader) -> tuple[int, int]:
    """Of tensors and of keys."""
    if reader.take(4) != b"GGUF":
        raise NotReadable("it does not begin as a GGUF")
    version = reader.number("I")
    if version and version & 0xFFFF == 0:
        raise NotReadable("it is written for big-endian machines")
    if version not in (2, 3):
        raise NotReadable(f"it is a GGUF of version {version}; 2 and 3 can be read")
    tensors, keys = reader.number(), reader.number()
    for count, most, what in ((tensors, MOST_TENSORS, "tensors"), (keys, MOST_KEYS, "keys")):
        # The least that one takes: an empty name, its type, and a byte or an offset.
        if count > most or count * 13 > reader.left:
            raise NotReadable(f"it claims {count} {what}, more than it can hold or any model has")
    return tensors, keys


@dataclass(frozen=True)
class _Length:
    count: int


def _value(reader: _Reader) -> Value | _Length:
    kind = reader.number("I")
    if kind in _FORMS:
        return _scalars(reader, kind, 1)[0]
    if kind == _STRING:
        return _text(reader)
    if kind != _ARRAY:
        raise NotReadable(f"it has a value of the unknown kind {kind}")
    inner, count = reader.number("I"), reader.number()
    if inner == _ARRAY:
        raise NotReadable("it has an array of arrays")
    if inner != _STRING and inner not in _FORMS:
        raise NotReadable(f"it has an array of the unknown kind {inner}")
    each = 8 if inner == _STRING else struct.calcsize(_FORMS[inner])
    if count * each > reader.left:
        raise NotReadable(f"it has an array of {count} values, more than fit into the file")
    if inner != _STRING:
        return _numbers(reader, inner, count)
    reader.skip_strings(count)
    return _Length(count)


def _text(reader: _Reader) -> str | _Length:
    length = reader.number()
    if length > min(LONGEST_TEXT, reader.kept_left):
        reader.skip(length)
        return _Length(length)
    reader.kept_left -= length
    return reader.take(length).decode(errors="replace")


def _numbers(reader: _Reader, kind: int, count: int) -> Value | _Length:
    if count > min(LONGEST_ARRAY, reader.kept_left):
        reader.skip(count * struct.calcsize(_FORMS[kind]))
        return _Length(count)
    reader.kept_left -= count
    return _scalars(reader, kind, count)


def _scalars(reader: _Reader, kind: int, count: int) -> list[int]:
    form = f"<{count}{_FORMS[kind]}"
    return list(struct.unpack(form, reader.take(struct.calcsize(form))))


Info = tuple[str, str, tuple[int, ...], int, int]
"""Name, type, shape, bytes, offset from where the data begins."""


def _infos(reader: _Reader, count: int) -> Iterator[Info]:
    names = set()
    for _ in range(count):
        name = reader.name()
        if name in names:
            raise NotReadable(f"it has two tensors named {name}")
        names.add(name)
        dimensions = reader.number("I")
        if not dimensions <= MOST_DIMENSIONS:
            raise NotReadable(f"its tensor {name} has {dimensions} dimensions")
        shape = tuple(reader.number("q") for _ in range(dimensions))
        kind = reader.number("I")
        if kind not in TYPES:
            raise NotReadable(f"its tensor {name} is of the unknown type {kind}")
        word, block, per_block = TYPES[kind]
        if any(side < 0 for side in shape) or (shape and shape[0] % block):
            raise NotReadable(f"its tensor {name} has the shape {list(shape)} in {word}")
        yield name, word, shape, math.prod(shape) // block * per_block, reader.number()


def _in_place(infos: Sequence[Info], data: int, alignment: int, size: int) -> list[Tensor]:
    """With where they are in the file: inside it, and apart from each other."""
    found = [Tensor(name, kind, shape, data + at, held) for name, kind, shape, held, at in infos]
    free_from = data
    for tensor in sorted(found, key=lambda each: (each.begin, each.end)):
        if tensor.end > size:
            raise NotReadable(
                f"its tensor {tensor.name} would end at byte {tensor.end} of a file of {size}: "
                "it is cut off, or lies"
            )
        if tensor.begin < free_from or (tensor.begin - data) % alignment:
            raise NotReadable(f"its tensor {tensor.name} begins where another one lies")
        free_from = tensor.end
    return found


# What the host maps ---------------------------------------------------------------------------

Placed = Sequence[tuple[str, bool]]


def mapped(files: Sequence[Sequence[Tensor]], placed: Placed = ()) -> list[int]:
    """Bytes with none, one, … and all layers, the output layer too, on other devices."""
    blocks = max((_block(tensor) for file in files for tensor in file), default=-1) + 1
    if blocks > MOST_LAYERS:
        raise NotReadable(f"its tensors name {blocks} layers")
    patterns = [(re.compile(pattern), on_host) for pattern, on_host in placed]
    sums = [0] * (blocks + 2)
    for file in files:
        for on_devices, span in enumerate(_spans(file, blocks, patterns)):
            sums[on_devices] += span
    return sums


def _spans(
    file: Iterable[Tensor], blocks: int, patterns: Sequence[tuple[re.Pattern[str], bool]]
) -> list[int]:
    """Of one file, by the number of layers on devices. -1: always the host's."""
    reach: dict[int, tuple[int, int]] = {}
    for tensor in file:
        layer = _layer(tensor, blocks)
        for pattern, on_host in patterns:
            if pattern.search(tensor.name):
                layer = -1 if on_host else blocks + 1
                break
        first, last = reach.get(layer, (tensor.begin, tensor.end))
        reach[layer] = (min(first, tensor.begin), max(last, tensor.end))
    spans = []
    first, last = sys.maxsize, 0
    for layer in range(-1, blocks + 1):
        begin, end = reach.get(layer, (sys.maxsize, 0))
        first, last = min(first, begin), max(last, end)
        spans.append(max(0, last - first))
    return spans[::-1]


def _layer(tensor: Tensor, blocks: int) -> int:
    """-1 for what stands before the layers, and is always the host's."""
    if tensor.name.startswith(("output", "cls")):
        return blocks
    return 0 if tensor.name.startswith("rope") else _block(tensor)


def _block(tensor: Tensor) -> int:
    found = _BLOCK.match(tensor.name)
    return int(found[1]) if found else -1


# The program ----------------------------------------------------------------------------------


def contents_at(path: str) -> Contents:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotReadable("it is not a file")
        return contents_of(file, found.st_size)


def whole(paths: Sequence[str], placed: Placed) -> dict[str, object]:
    """Of all files of a model. Raises NotReadable and OSError."""
    shards = []
    for path in paths:
        try:
            shards.append(contents_at(path))
        except NotReadable as failure:
            raise NotReadable(f"the file {Path(path).name}: {failure}") from failure
    names = [tensor.name for shard in shards for tensor in shard.tensors]
    if len(set(names)) < len(names):
        raise NotReadable("two of its files have a tensor of the same name")
    tensors = [(*astuple(each), at) for at, shard in enumerate(shards) for each in shard.tensors]
    told = {"values": shards[0].values, "lengths": shards[0].lengths, "tensors": tensors}
    return {**told, "mapped": mapped([shard.tensors for shard in shards], placed)}


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(3)


def main(argv: list[str]) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    asked = json.loads(argv[0])
    threading.Thread(target=_end_with_stdin, daemon=True).start()  # whoever started us holds it
    try:
        found = whole(asked["shards"], asked["placed"])
    except OSError as failure:
        print(f"{failure.filename}: {failure.strerror}", file=sys.stderr)
        return 1
    except (NotReadable, MemoryError, re.error) as failure:
        print(str(failure) or "it takes more memory than any header", file=sys.stderr)
        return 1
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the thread at stdin would hold an ordinary exit
