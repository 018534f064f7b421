"""A child's log: the last lines in memory, all of them in a file that cannot grow without end.

A child prints what clients write. Neither here nor in the file is a key, or what a terminal obeys.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from models_registry.log_redaction import harmless_lines
from scheduler.core.values import InstanceId
from scheduler.run_logs import earlier_file, make_room, run_path

from .child_lines import text_of
from .last_words import last_words, says_out_of_memory

logger = logging.getLogger(__name__)

KEPT_LINES = 60
LONGEST_KEPT_LINE = 2000
_KEPT_BYTES = KEPT_LINES * LONGEST_KEPT_LINE
FILE_LIMIT = 5 << 20
"""Bytes in one file; with its predecessor a run's log takes twice as much."""


class ChildLog:
    """Of what is in memory the last KEPT_LINES count. A file that cannot be written is said once
    and given up: a full disk must not end a model."""

    def __init__(
        self, path: Path | None, file_limit: int = FILE_LIMIT, began: datetime | None = None
    ) -> None:
        self.began = began or datetime.now(UTC)
        """Its run."""
        self._kept: deque[bytes] = deque(maxlen=KEPT_LINES)  # each at least a line
        self._kept_bytes = 0
        self._path = path
        self._file_limit = file_limit
        self._file: BinaryIO | None = None
        self._size = 0
        self.is_over = False
        """No line comes any more."""

    def add(self, line: bytes) -> None:
        line = harmless_lines(line)
        self._keep(line[:LONGEST_KEPT_LINE] + b"\n")
        self._write(line + b"\n")

    def add_lines(self, lines: bytes) -> None:
        """Whole ones, with their newlines. Nothing is done for each of them: a busy child writes
        dozens for a request."""
        lines = harmless_lines(lines)
        self._keep(lines[-_KEPT_BYTES:])
        self._write(lines)

    def words(self) -> str:
        return last_words(self._last_lines())

    def says_out_of_memory(self) -> bool:
        return says_out_of_memory(self._last_lines())

    def close(self) -> None:
        self.is_over = True
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _last_lines(self) -> list[str]:
        lines = [line for line in b"".join(self._kept).split(b"\n") if line.strip()]
        return [text_of(line[:LONGEST_KEPT_LINE]) for line in lines[-KEPT_LINES:]]

    def _keep(self, lines: bytes) -> None:
        if len(self._kept) == KEPT_LINES:
            self._kept_bytes -= len(self._kept[0])  # it goes by itself
        self._kept.append(lines)
        self._kept_bytes += len(lines)
        while self._kept_bytes - len(self._kept[0]) >= _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft())

    def _write(self, lines: bytes) -> None:
        if self._path is None:
            return
        try:
            if self._file is None:
                self._file = _opened(self._path)
                self._size = self._file.tell()
            self._file.write(lines)
            self._size += len(lines)
            if self._size >= self._file_limit:
                self._close_file()
                self._path.replace(earlier_file(self._path))
        except OSError as failure:
            logger.warning("no log is kept in %s any more: %s", self._path, failure)
            self._path = None
            self._close_file()


class RunLogs:
    """The logs of all children: each has a file of its own, and of each preset so many are kept."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._given: dict[Path, ChildLog] = {}

    def begun(self, preset: str, instance: InstanceId, at: datetime | None = None) -> ChildLog:
        """A run's, which begins then; else now."""
        at = at or datetime.now(UTC)
        self._given = {path: log for path, log in self._given.items() if not log.is_over}
        path = run_path(self._logs, preset, at, instance)
        try:
            make_room(path.parent, self._given)
        except OSError as failure:
            logger.warning("earlier logs of %s could not be removed: %s", preset, failure)
        self._given[path] = log = ChildLog(path, began=at)
        return log


def _opened(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return open(path, "ab", buffering=0, opener=_private)


def _private(path: str, flags: int) -> int:
    """Others may not read it: it can hold what people asked."""
    return os.open(path, flags, mode=0o600)
