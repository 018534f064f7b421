"""A preset's log as it is kept in files (runtime/child_log.py): its last lines, and what is added.

The file is one for all children of the preset, those that are started later included. When it is
full it is renamed, and the next line begins a new one.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 16


def earlier_file(path: Path) -> Path:
    return path.with_suffix(".log.1")


def last_lines(path: Path, count: int, *, until: int | None = None) -> list[bytes]:
    """Of the file, up to that byte of it, and of the one before it; with their newlines."""
    kept: deque[bytes] = deque(maxlen=count)
    for file, end in ((earlier_file(path), None), (path, until)):
        try:
            with file.open("rb") as opened:
                kept.extend(opened.read(end).splitlines(keepends=True))
        except FileNotFoundError:
            continue
    return list(kept)


class Following:
    """What is added to `path` from now on, which is behind the byte `begin`; the file need not be
    there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._opened()
        self.begin = 0 if self._file is None else self._file.seek(0, os.SEEK_END)

    def added(self) -> bytes:
        """Since the last time; empty when nothing was. What was written before the file was renamed
        comes before what stands in the new one."""
        if self._file is not None and (found := self._file.read(CHUNK)):
            return found
        if self._is_current():
            return b""
        self.close()
        self._file = self._opened()
        return b"" if self._file is None else self._file.read(CHUNK)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_current(self) -> bool:
        """Whether no other file has the name now."""
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        return self._file is not None and os.path.samestat(os.fstat(self._file.fileno()), named)

    def _opened(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except FileNotFoundError:
            return None
