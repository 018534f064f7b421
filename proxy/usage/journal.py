"""The journal: a line for each record, in a file of this process's own, before anybody has seen the
end of the answer that it counts.

A line is one `write` to a file that is opened for appending: whoever kills the process then has
killed nothing that was counted. The file is locked (flock) as long as it is written to; who gets
the lock of one (proxy/usage/taking_up.py) brings it into the database and removes it. Why it is
built so: docs/decisions/0022-usage-journal.md.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from pathlib import Path

from proxy.usage import locked_files
from proxy.usage.record import Record, line_of
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl"
APPENDING = os.O_WRONLY | os.O_APPEND
LARGEST_FILE = 4 << 20
"""Bytes, after which another one is begun."""


class Journal:
    """One per process and event loop; not for threads. It never raises at a record: what cannot be
    written is held in memory and written later, and new requests are refused meanwhile."""

    def __init__(self, folder: Path, limit: int) -> None:
        """`limit`: bytes of all journals in `folder`, from which on nothing new is taken."""
        self.folder = folder
        self._limit = limit
        self._file = -1
        self._size = 0
        self._path: Path | None = None
        self._before: Path | None = None
        """The file that was let go last, until a look finds it gone."""
        self._waiting_bytes = 0
        """Of all files in the folder at the last look, and what was written since."""
        self._held: list[bytes] = []

    @property
    def is_open(self) -> bool:
        """Something was written that is not yet anybody's to bring into the database."""
        return self._file >= 0

    @property
    def waits_for_others(self) -> bool:
        """The file before this one is still there: whoever brings them in is behind, or away."""
        return self._before is not None

    @property
    def waiting_bytes(self) -> int:
        """Of all files in the folder, as it was last looked at, and what was written since."""
        return self._waiting_bytes

    @property
    def held(self) -> int:
        """Records that could not be written."""
        return len(self._held)

    def refuse_if_full(self) -> None:
        """Raises Refused `usage_unavailable`: nobody is served whose usage cannot be kept."""
        if self._held:
            raise _unavailable("the disk does not take it")
        if self._waiting_bytes > self._limit:
            raise _unavailable(
                f"the jobs process has not brought it into the database for so long that the "
                f"journal is full (CORRAL_USAGE_JOURNAL is {self._limit} bytes)"
            )

    def write(self, record: Record) -> None:
        line = line_of(record)
        if self._held:
            self._held.append(line)  # in its order
            return
        try:
            self._append(line)
        except OSError as error:
            logger.error("Usage cannot be journalled in %s: %s", self.folder, error)
            self._held.append(line)

    def write_held(self) -> None:
        """Try again with what could not be written."""
        try:
            while self._held:
                self._append(self._held[0])
                del self._held[0]
        except OSError as error:
            logger.debug("Usage cannot be journalled yet: %s", error)
        else:
            logger.info("Usage can be journalled again")

    def let_go(self) -> None:
        """The file is anybody's from now on, and the next record begins another one."""
        file, self._file = self._file, -1
        self._size = 0
        if file >= 0:
            self._before = self._path
            os.close(file)

    def look(self) -> None:
        """How much waits in the folder, and whether the file before is gone. Raises OSError."""
        self._waiting_bytes = size_of(self.folder)
        if self._before is not None and not self._before.exists():
            self._before = None

    def _append(self, line: bytes) -> None:
        """All of it, or nothing. Raises OSError."""
        if self._size >= LARGEST_FILE:
            self.let_go()
        if self._file < 0:
            self._path, self._file = locked_files.made(self.folder, _name, APPENDING)
        written = os.write(self._file, line)
        if written != len(line):  # the disk is full: half a line is none, and nothing follows it
            self.let_go()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written
        self._waiting_bytes += written


def journals_in(folder: Path) -> list[Path]:
    """The oldest first. Raises OSError."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except FileNotFoundError:
        return []


def size_of(folder: Path) -> int:
    """Bytes of all journals. Raises OSError."""
    size = 0
    for path in journals_in(folder):
        try:
            size += path.stat().st_size
        except FileNotFoundError:
            continue  # it has just been brought in
    return size


def _name() -> str:
    return f"{time.time_ns():020d}-{os.getpid()}{SUFFIX}"


def _unavailable(why: str) -> Refused:
    return Refused(
        "usage_unavailable",
        f"What requests use cannot be recorded: {why}. Nothing is answered meanwhile; an "
        "administrator has to look.",
        retry_after_seconds=5.0,
    )
