"""What one GGUF file says of itself, without its tensors. On the standard library alone: the
programs that read files for Corral import it (header_child.py, metadata_child.py).

Nothing that a file claims is believed before it is held against the file's size.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import BinaryIO, NamedTuple

MOST_KEYS, MOST_TENSORS, MOST_DIMENSIONS = 1 << 12, 1 << 13, 4
MOST_STRINGS = 1 << 21  # in all arrays: a vocabulary of 260,000 has twice as many merges
MOST_KEPT = 1 << 18  # elements of arrays and letters of texts whose values are kept
LONGEST_ARRAY = LONGEST_TEXT = 1 << 12  # of a longer one only the length is kept
LONGEST_NAME = 256  # the engine takes 63
LONGEST_WHOLE = 1 << 16  # of a text that is asked for
FIRST_WINDOW, WINDOW = 1 << 16, 1 << 20  # a header without a long vocabulary is small

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
_UINT = struct.Struct("<I").unpack_from
_SHAPE_TYPE_OFFSET = [struct.Struct(f"<{sides}qIQ") for sides in range(MOST_DIMENSIONS + 1)]
_LARGEST_INFO = 8 + LONGEST_NAME + 4 + _SHAPE_TYPE_OFFSET[-1].size

Value = int | float | bool | str | list[int] | list[float] | list[bool] | list[str]


class NotReadable(ValueError):
    """It is no GGUF that we know; the text is a sentence's end: what is wrong with it."""


class Tensor(NamedTuple):
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
        self._next_window = FIRST_WINDOW
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

    def ahead(self, count: int) -> tuple[bytes, int]:
        """The window and where in it we are: `count` bytes follow, or all that is left."""
        if count > len(self._window) - self._at:
            self._fill(min(count, self.left))
        return self._window, self._at

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
        more = self._file.read(max(self._next_window, count - len(rest)))
        self._next_window = min(2 * self._next_window, WINDOW)
        self._read += len(more)
        self._window, self._at = rest + more, 0
        if len(self._window) < count:
            raise NotReadable("it became shorter while it was read")


def contents_of(file: BinaryIO, size: int, whole: Collection[str] = ()) -> Contents:
    """Raises NotReadable. Texts of the keys in `whole` are kept up to LONGEST_WHOLE bytes."""
    reader = _Reader(file, size)
    tensors, keys = _counts(reader)
    values: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    for _ in range(keys):
        key = reader.name()
        if key in values or key in lengths:
            raise NotReadable(f"it says {key[:100]} twice")
        found = _value(reader, key in whole)
        if isinstance(found, _Length):
            lengths[key] = found.count
        else:
            values[key] = found
    infos = _infos(reader, tensors)
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


def _value(reader: _Reader, whole: bool) -> Value | _Length:
    kind = reader.number("I")
    if kind in _FORMS:
        return _scalars(reader, kind, 1)[0]
    if kind == _STRING:
        return _beginning(reader) if whole else _text(reader)
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


def _beginning(reader: _Reader) -> str:
    length = reader.number()
    kept = min(length, LONGEST_WHOLE)
    text = reader.take(kept).decode(errors="replace")
    reader.skip(length - kept)
    return text


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
"""Name, type, shape, offset from where the data begins, bytes."""


def _infos(reader: _Reader, count: int) -> list[Info]:
    """In a file without a long vocabulary this is where the time goes."""
    found: list[Info] = []
    while len(found) < count:
        window, begin = reader.ahead(_LARGEST_INFO)
        last, at = len(window) - _LARGEST_INFO, begin
        while True:  # until the next one may reach beyond the window
            try:
                info, at = _info(window, at)
            except struct.error as failure:
                raise NotReadable("it is cut off in its header") from failure
            found.append(info)
            if at > last or len(found) == count:
                break
        reader.skip(at - begin)
    names = Counter(info[0] for info in found)
    if len(names) < count:
        raise NotReadable(f"it has two tensors named {names.most_common(1)[0][0]}")
    return found


def _info(window: bytes, at: int) -> tuple[Info, int]:
    """And where it ends. Raises NotReadable, and struct.error where the window ends too early."""
    (length,) = _LENGTH(window, at)
    if length > LONGEST_NAME:
        raise NotReadable(f"it has a name of {length} bytes")
    end = at + 8 + length
    name = window[at + 8 : end].decode(errors="replace")
    (dimensions,) = _UINT(window, end)
    if dimensions > MOST_DIMENSIONS:
        raise NotReadable(f"its tensor {name} has {dimensions} dimensions")
    layout = _SHAPE_TYPE_OFFSET[dimensions]
    *sides, kind, offset = layout.unpack_from(window, end + 4)
    if kind not in TYPES:
        raise NotReadable(f"its tensor {name} is of the unknown type {kind}")
    word, block, per_block = TYPES[kind]
    if sides and (min(sides) < 0 or sides[0] % block):
        raise NotReadable(f"its tensor {name} has the shape {sides} in {word}")
    size = math.prod(sides) // block * per_block
    return (name, word, tuple(sides), offset, size), end + 4 + layout.size


def _in_place(infos: Sequence[Info], data: int, alignment: int, size: int) -> list[Tensor]:
    """With where they are in the file: inside it, and apart from each other."""
    free_from = 0
    for name, _, _, at, held in sorted(infos, key=itemgetter(3, 4)):
        if data + at + held > size:
            raise NotReadable(
                f"its tensor {name} would end at byte {data + at + held} of a file of {size}: "
                "it is cut off, or lies"
            )
        if at < free_from or at % alignment:
            raise NotReadable(f"its tensor {name} begins where another one lies")
        free_from = at + held
    return [Tensor(name, kind, shape, data + at, held) for name, kind, shape, at, held in infos]


def contents_at(path: str, whole: Collection[str] = ()) -> Contents:
    """Raises NotReadable and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotReadable("it is not a file")
        return contents_of(file, found.st_size, whole)
