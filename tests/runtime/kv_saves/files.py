"""Slot files as llama-server writes them, and what is asked of a store of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from scheduler.runtime.kv_saves.store import Kind, SaveStore, Written

KIND = Kind("a", "made", "key")


def slot_file(tokens: Sequence[int], state: bytes = b"state", *, packed: bool = True) -> bytes:
    words = [-1, 1, len(tokens), *tokens, 0] if packed else list(tokens)
    head = struct.pack("<III", 0x67677371, 2, len(words))
    return head + struct.pack(f"<{len(words)}i", *words) + state


def written(
    store: SaveStore,
    tokens: Sequence[int] = range(128),
    *,
    tenant: str = "t",
    kind: Kind = KIND,
    size: int = 0,
    alone: bool = True,
) -> Written:
    """What a child has just written; of `size` bytes, if that is more."""
    path: Path = store.folder_of_child() / "slot.kv"
    data = slot_file(tokens)
    path.write_bytes(data.ljust(size, b"."))
    return Written(path, kind, tenant, alone, len(tokens), seconds=2.0)
