"""The files of a model on disk: every shard, their sizes, and what is wrong with them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from models_registry.naming import shard_names


@dataclass(frozen=True, slots=True)
class FilesState:
    """What `stat` says of a model's files. `problem` is empty, or the first thing amiss."""

    size: int
    stamp: tuple[tuple[str, int, int], ...]  # (path, bytes, mtime in ns): part of a fingerprint
    problem: str = ""


def files_state(path: str, mmproj: str = "") -> FilesState:
    """Of all shards of `path`, and of the projector when there is one. `size` leaves it out."""
    model = Path(path)
    shards = [model.with_name(name) for name in shard_names(model.name)]
    stamp: list[tuple[str, int, int]] = []
    size = 0
    problem = ""
    for file in [*shards, *([Path(mmproj)] if mmproj else [])]:
        try:
            found = file.stat()
        except OSError as error:
            problem = problem or f"the file {file} cannot be read ({error.strerror})"
            continue
        stamp.append((os.fspath(file), found.st_size, found.st_mtime_ns))
        size += found.st_size if file in shards else 0
    return FilesState(size, tuple(stamp), problem)
