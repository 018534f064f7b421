"""The files of a model on disk: every shard, their sizes, and what is wrong with them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from models_registry.naming import shard_names, shards_problem


@dataclass(frozen=True, slots=True)
class FilesState:
    """What `stat` says of a model's files. `problem` is empty, or the first thing amiss."""

    size: int
    stamp: tuple[tuple[str, int, int], ...]  # (path, bytes, mtime in ns): part of a fingerprint
    problem: str = ""


def files_state(path: str, *companions: str) -> FilesState:
    """Of all shards of `path`, and of its companions (projector, draft model), empty ones left out.
    `size` is the model's alone."""
    name = os.path.basename(path)  # noqa: PTH119 - a Path costs more than the look at the file
    if problem := shards_problem(name):
        return FilesState(0, (), f"the file {path} {problem}")
    names = shard_names(name)
    state = _seen([path]) if len(names) == 1 else _shards_state(Path(path), names)
    beside = _seen(companion for companion in companions if companion)
    return FilesState(state.size, state.stamp + beside.stamp, state.problem or beside.problem)


def _seen(files: Iterable[str]) -> FilesState:
    stamp: list[tuple[str, int, int]] = []
    problem = ""
    for file in files:
        try:
            found = os.stat(file)  # noqa: PTH116 - thousands of them
        except OSError as error:
            problem = problem or f"the file {file} cannot be read ({error.strerror})"
            continue
        stamp.append((file, found.st_size, found.st_mtime_ns))
    return FilesState(sum(size for _, size, _ in stamp), tuple(stamp), problem)


LOOK_AGAIN_SECONDS = 10.0
"""Shards that were overwritten in place are noticed after so long; what came or went, at once."""

SETTLED_SECONDS = 1.0
"""A folder that changed within this time may change again under the same modification time."""

_MOST_KEPT = 1000


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    folder_changed_at: int
    state: FilesState


_looks: dict[str, _Look] = {}


def _shards_state(model: Path, names: Sequence[str]) -> FilesState:
    """Every look at a preset asks for this, and shards may be a thousand: it is remembered."""
    key = os.fspath(model)
    try:
        changed_at = model.parent.stat().st_mtime_ns
    except OSError:
        return _seen(str(model.with_name(name)) for name in names)  # with the reason
    last = _looks.get(key)
    now = time.monotonic()
    if last and last.folder_changed_at == changed_at and now - last.at < LOOK_AGAIN_SECONDS:
        return last.state
    state = _seen(str(model.with_name(name)) for name in names)
    if time.time() - changed_at / 1e9 > SETTLED_SECONDS:
        if len(_looks) >= _MOST_KEPT:
            _looks.clear()
        _looks[key] = _Look(now, changed_at, state)
    return state
