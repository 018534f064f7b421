"""A child's log: the last lines in memory, all of them in a file that cannot grow without end."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections import deque
from pathlib import Path
from typing import BinaryIO

from .child_lines import text_of
from .last_words import last_words, says_out_of_memory

logger = logging.getLogger(__name__)

KEPT_LINES = 60
LONGEST_KEPT_LINE = 2000
FILE_LIMIT = 5 << 20
"""Bytes in one file; with its predecessor a preset's log takes twice as much."""


class ChildLog:
    """Not more than KEPT_LINES in memory. A file that cannot be written is said once and given up:
    a full disk must not end a model."""

    def __init__(self, path: Path | None, file_limit: int = FILE_LIMIT) -> None:
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._path = path
        self._file_limit = file_limit
        self._file: BinaryIO | None = None

    def add(self, line: bytes) -> None:
        self._kept.append(text_of(line[:LONGEST_KEPT_LINE]))
        if self._path is None:
            return
        try:
            self._write(self._path, line)
        except OSError as failure:
            logger.warning("no log is kept in %s any more: %s", self._path, failure)
            self._path = None
            self.close()

    def words(self) -> str:
        return last_words(list(self._kept))

    def says_out_of_memory(self) -> bool:
        return says_out_of_memory(self._kept)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, path: Path, line: bytes) -> None:
        if self._file is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = open(path, "ab", buffering=0, opener=_private)  # noqa: SIM115 - see close()
        self._file.write(line + b"\n")
        if self._file.tell() >= self._file_limit:
            self.close()
            path.replace(path.with_suffix(".log.1"))


def log_path(folder: Path, preset: str) -> Path:
    """Where a preset's log is: its name, or a safe form of it that no other name shares."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", preset)[:100].lstrip(".")
    if safe != preset:
        safe = f"{safe}-{hashlib.sha256(preset.encode()).hexdigest()[:8]}"
    return folder / f"{safe}.log"


def _private(path: str, flags: int) -> int:
    """Others may not read it: it can hold what people asked."""
    return os.open(path, flags, mode=0o600)
