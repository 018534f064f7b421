"""How much of a model's files was in memory when its load began: the rest comes from the disk.

Looked at in a thread, while the child is being started: a disk that does not answer delays nobody.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models_registry.launch import LaunchSpec

from .page_cache import is_cached
from .read_ahead import is_mapped, paths_of
from .record import Cached, Entry, Record, Started

logger = logging.getLogger(__name__)

SAMPLES = 256
"""Places in the files that are looked at, however large these are."""

SpecOf = Callable[[str], LaunchSpec | None]
"""Of a preset."""


class WarmthRecord:
    """Called as the record is; in the owner's turn."""

    def __init__(self, record: Record, spec_of: SpecOf) -> None:
        self._record = record
        self._spec_of = spec_of
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="warmth")

    def __call__(self, entry: Entry) -> None:
        self._record(entry)
        if isinstance(entry, Started):
            spec = self._spec_of(entry.preset)
            if spec is not None and is_mapped(spec):
                self._thread.submit(self._look, entry, spec)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _look(self, entry: Started, spec: LaunchSpec) -> None:
        try:
            share = share_in_memory(list(paths_of(spec)))
        except OSError as failure:  # a load will say it, to who waits
            logger.debug("%s: what of it is in memory is not known: %s", entry.preset, failure)
            return
        if share is not None:
            self._record(Cached(entry.instance, share))


def share_in_memory(paths: list[Path]) -> float | None:
    """From 0 to 1; None where the file system cannot tell. Raises OSError."""
    sizes = {path: path.stat().st_size for path in paths}
    whole = sum(sizes.values())
    looked = there = 0
    for path, size in sizes.items():
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            count = max(1, SAMPLES * size // whole) if size else 0
            for number in range(count):
                found = is_cached(descriptor, size * (2 * number + 1) // (2 * count))
                if found is None:
                    return None
                looked += 1
                there += found
        finally:
            os.close(descriptor)
    return there / looked if looked else None
