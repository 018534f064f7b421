"""What lies outside the registry's rows and decides whether a preset can be started: its files, and
the engine. A look at it is cheap, where reading all rows again is not."""

from __future__ import annotations

import os
from collections.abc import Iterable

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing


def outside_state(files: Iterable[str]) -> object:
    """Another one whenever one of the files, or the engine, has come, gone or changed."""
    return (_engine(), tuple(_state(file) for file in files))


def _engine() -> object:
    try:
        return _state(str(llama_server()))
    except EngineMissing as error:
        return str(error)


def _state(file: str) -> tuple[int, ...]:
    try:
        found = os.stat(file)  # noqa: PTH116 - thousands of them
    except OSError as error:
        return (error.errno or -1,)
    return found.st_mtime_ns, found.st_size, found.st_mode
