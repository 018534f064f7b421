"""llama-server's file of one slot: what it holds, and whether it still is what was written.

It begins with three words (what it is, its version, how many words of tokens follow). The tokens
are a plain list in older builds; newer ones write -1, a version and a count before them, and what
belongs to images after them.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

BLOCK_TOKENS = 64
MOST_TOKENS = 1 << 22
"""Words of tokens that are looked at; a file that says more of them is not understood."""
READ_BYTES = 1 << 20
_HEAD = struct.Struct("<III")
_PACKED = struct.Struct("<iII")
_PACKED_MARK = -1
_TOKEN_BYTES = 4


def checksum(path: Path) -> tuple[int, int]:
    """(bytes, CRC-32 of them). Blocks, at about 1 GiB/s. Raises OSError."""
    size, crc = 0, 0
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            size += len(data)
            crc = zlib.crc32(data, crc)
    return size, crc


def blocks_of(path: Path) -> tuple[int, ...]:
    """One number for each whole block of tokens, made of it and of all before it: two files begin
    with the same tokens as far as these are the same. Empty where the file is not understood.
    Raises OSError."""
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return ()
        words = _HEAD.unpack(head)[2]
        if words > MOST_TOKENS:
            return ()
        return _blocks(_tokens(file.read(words * _TOKEN_BYTES)))


def _tokens(words: bytes) -> bytes:
    if len(words) < _PACKED.size:
        return words
    mark, _, count = _PACKED.unpack_from(words)
    if mark != _PACKED_MARK:
        return words
    return words[_PACKED.size : _PACKED.size + count * _TOKEN_BYTES]


def _blocks(tokens: bytes) -> tuple[int, ...]:
    size, crc, blocks = BLOCK_TOKENS * _TOKEN_BYTES, 0, []
    for begin in range(0, len(tokens) - size + 1, size):
        crc = zlib.crc32(tokens[begin : begin + size], crc)
        blocks.append(crc)
    return tuple(blocks)
