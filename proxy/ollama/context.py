"""`context` of generate: what has been said so far, as the list of integers that clients send back.

At Ollama it holds tokens. Clients pass it on as it is, so here it holds the text itself, packed: it
needs no tokenizer, survives another model or another quantisation, and takes fewer numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from scheduler.protocol import Refused

MARK = 0x6F6C6D61
"""The first number: another server's context is told from ours."""
_VERSION = 1
_STEP = 3
MOST_NUMBERS = 4 << 20
MOST_TEXT = 16 << 20
"""Bytes of what is packed."""


class Said(msgspec.Struct):
    """Turns of (role, text), or one text where no chat template was used."""

    turns: list[tuple[str, str]] = []
    text: str = ""


def packed(said: Said) -> list[int]:
    """Empty for what is too long to be sent back and forth."""
    plain = msgspec.json.encode(said)
    if len(plain) > MOST_TEXT:
        return []
    data = zlib.compress(plain)
    numbers = (data[at : at + _STEP] for at in range(0, len(data), _STEP))
    return [MARK, _VERSION, len(data), *(int.from_bytes(each) for each in numbers)]


def unpacked(raw: msgspec.Raw) -> Said | None:
    """None where there is none. Raises Refused."""
    try:
        if memoryview(raw).nbytes > MOST_NUMBERS:
            raise ValueError("too long")
        numbers = msgspec.json.decode(raw, type=list[int] | None)
        return _said(numbers) if numbers else None
    except (ValueError, OverflowError, zlib.error, msgspec.MsgspecError) as error:
        raise Refused(
            "invalid_request",
            "`context` must be what an earlier answer of this gateway's held: tokens of another "
            "server mean nothing here. Leave it out to begin anew.",
        ) from error


def _said(numbers: Sequence[int]) -> Said:
    mark, version, size, *packed = numbers
    if (mark, version) != (MARK, _VERSION) or len(packed) != -(-size // _STEP):
        raise ValueError("not ours")
    last = size - _STEP * (len(packed) - 1)
    data = b"".join(each.to_bytes(_STEP) for each in packed[:-1]) + packed[-1].to_bytes(last)
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(data, MOST_TEXT)
    if not unpacker.eof:
        raise ValueError("too long, or cut")
    return msgspec.json.decode(plain, type=Said)
