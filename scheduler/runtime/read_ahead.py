"""Weights on their way early: while somebody waits for a model that has no instance, its files are
read into the page cache, so that a load finds them there once there is room.

Piece by piece, and no more than the host has free beside all that the ledger holds: what was read
and is not used takes nothing from anybody, but more than that would push out what others run on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from models_registry.engines import EngineKind
from models_registry.launch import LaunchSpec
from models_registry.naming import shard_names
from scheduler.core.sizes import HOST

from .page_cache import is_cached

if TYPE_CHECKING:
    from .owner import Owner

logger = logging.getLogger(__name__)

PIECE_BYTES = 32 << 20
STEP_BYTES = 1 << 20

Fetch = Callable[[Path, int, int], None]
"""Has so many bytes of a file, from that one on, in the page cache when it returns. Blocks. Raises
OSError."""


def fetch(path: Path, begin: int, size: int) -> None:
    # POSIX_FADV_WILLNEED reads no more at once than the device's own limit (seen: 8 of 32 MiB).
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        read = bytearray(STEP_BYTES)
        for at in range(begin, begin + size, STEP_BYTES):
            if not _is_there(descriptor, at, min(STEP_BYTES, begin + size - at)):
                os.preadv(descriptor, [read], at)
    finally:
        os.close(descriptor)


def _is_there(descriptor: int, begin: int, size: int) -> bool:
    """Judged by its first and its last byte."""
    return all(is_cached(descriptor, at) for at in (begin, begin + size - 1))


def host_room(owner: Owner) -> int:
    """Bytes of the host that are nobody's; 0 while it has not been read."""
    free, _ = owner.planner.ledger.free()
    return free.get(HOST, 0)


class ReadAhead:
    """One model at a time, in the order in which they were asked for."""

    def __init__(
        self,
        owner: Owner,
        *,
        is_on: bool = True,
        fetch: Fetch = fetch,
        room: Callable[[Owner], int] = host_room,
    ) -> None:
        self._owner = owner
        self._room = room
        self._is_on = is_on
        self._fetch = fetch
        self._coming: set[str] = set()
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")

    def wanted(self, preset: str) -> None:
        """Somebody has joined its queue. In the owner's turn."""
        spec = self._owner.offer.specs.get(preset)
        if not self._is_on or preset in self._coming or spec is None or not is_mapped(spec):
            return
        if any(run.spec.preset == preset for run in self._owner.runs.values()):
            return
        self._coming.add(preset)
        self._owner.begin(self._read(spec), f"read-ahead-{preset}")

    async def _read(self, spec: LaunchSpec) -> None:
        try:
            async with self._turn:
                size = await self._read_pieces(spec)
            if size:
                logger.info("%s: %d MiB were read ahead", spec.preset, size >> 20)
        except OSError as failure:  # a load will say it, to who waits
            logger.debug("%s could not be read ahead: %s", spec.preset, failure)
        finally:
            self._coming.discard(spec.preset)

    async def _read_pieces(self, spec: LaunchSpec) -> int:
        """Until nobody waits for it any more, or there is no room; returns the bytes."""
        loop = asyncio.get_running_loop()
        pieces = await loop.run_in_executor(self._thread, list, _pieces(spec))
        read = 0
        for path, begin, size in pieces:
            is_wanted = self._owner.waiting.waits_for(spec.preset)
            if not is_wanted or read + size > self._room(self._owner):
                break
            await loop.run_in_executor(self._thread, self._fetch, path, begin, size)
            read += size
        return read


def is_mapped(spec: LaunchSpec) -> bool:
    """Whether its engine reads by way of the page cache files that are known here."""
    direct = ("--load-mode", "dio") in pairwise(spec.argv)
    return spec.engine.kind == EngineKind.LLAMA_SERVER and bool(spec.files) and not direct


def _pieces(spec: LaunchSpec) -> Iterator[tuple[Path, int, int]]:
    """Raises OSError."""
    for path in paths_of(spec):
        size = path.stat().st_size
        for begin in range(0, size, PIECE_BYTES):
            yield path, begin, min(PIECE_BYTES, size - begin)


def paths_of(spec: LaunchSpec) -> Iterator[Path]:
    """Of all its files, those of a sharded model one by one."""
    for file in map(Path, spec.files):
        yield from (file.with_name(name) for name in shard_names(file.name))
