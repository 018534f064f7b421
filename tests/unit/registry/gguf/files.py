"""GGUF files written byte by byte, true or lying."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

F32, Q4_0 = 0, 2
STRING, ARRAY = 8, 9


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def said(name: str, value: str) -> bytes:
    return key(name, STRING, text(value))


def number(name: str, value: int) -> bytes:
    return key(name, 4, struct.pack("<I", value))


def array(name: str, inner: int, count: int, data: bytes = b"") -> bytes:
    return key(name, ARRAY, struct.pack("<IQ", inner, count) + data)


def info(
    name: str, *shape: int, kind: int = F32, offset: int = 0, dimensions: int | None = None
) -> bytes:
    count = len(shape) if dimensions is None else dimensions
    sides = struct.pack(f"<{len(shape)}q", *shape)
    return text(name) + struct.pack("<I", count) + sides + struct.pack("<IQ", kind, offset)


@dataclass(frozen=True)
class Gguf:
    keys: tuple[bytes, ...] = (said("general.architecture", "llama"),)
    tensors: tuple[bytes, ...] = ()
    data: bytes = bytes(256)
    magic: bytes = b"GGUF"
    version: int = 3
    claims: dict[str, int] = field(default_factory=dict)
    order: str = "<"

    def written(self) -> bytes:
        keys, tensors = (
            self.claims.get("keys", len(self.keys)),
            self.claims.get("tensors", len(self.tensors)),
        )
        head = self.magic + struct.pack(f"{self.order}IQQ", self.version, tensors, keys)
        head += b"".join(self.keys) + b"".join(self.tensors)
        return head + bytes(-len(head) % 32) + self.data
