"""What is under way for long, as it would have to be recorded if this process were killed now: a
file each, locked as long as the process lives. Whoever gets the lock of one (proxy/orphans.py) sees
to its record.
"""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

import msgspec

from proxy.usage import locked_files
from proxy.usage.record import Record

logger = logging.getLogger(__name__)

SUFFIX = ".json"
SIZE = 4096
"""Bytes that are written at once, so that a full disk cannot stand in a later one's way."""


class Opened(msgspec.Struct, omit_defaults=True):
    """`record` is what is known. Of a conversation also its name, by owner and client's id, and the
    key of its stream: it goes on without the process, and its child can tell the rest."""

    record: Record
    owner: str = ""
    conversation: str = ""
    stream: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Opened).decode


class OpenRecord:
    """This process's own."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    def tell(self, opened: Opened) -> None:
        """In place of what was told before; in one write, which nobody can kill half of."""
        try:
            os.pwrite(self._file, _encode(opened).ljust(SIZE), 0)
        except OSError as error:
            logger.warning("What is under way cannot be noted in %s: %s", self._path, error)

    def close(self) -> None:
        """It is recorded."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)


class LeftOpen:
    """A killed process's, and nobody else's until it is let go. `opened` is None of one that was
    never written to."""

    def __init__(self, path: Path, file: int, opened: Opened | None) -> None:
        self.opened = opened
        self._path = path
        self._file = file

    def recorded(self) -> None:
        self._path.unlink(missing_ok=True)
        self.let_go()

    def let_go(self) -> None:
        """For whoever comes next."""
        os.close(self._file)


class OpenRecords:
    """Of one process and event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, opened: Opened) -> OpenRecord | None:
        """None when the disk does not take it, which the log says: then it is only recorded at its
        end."""
        try:
            record = OpenRecord(*self._made())
        except OSError as error:
            logger.warning("What is under way cannot be noted in %s: %s", self._folder, error)
            return None
        record.tell(opened)
        return record

    def left(self) -> list[LeftOpen]:
        """Those whose process is gone. In a thread: it reads files."""
        try:
            paths = [path for path in self._folder.iterdir() if path.suffix == SUFFIX]
        except FileNotFoundError:
            return []
        return [left for left in map(_left, paths) if left is not None]

    def _made(self) -> tuple[Path, int]:
        """A new file, locked. Raises OSError."""
        return locked_files.made(self._folder, _name, os.O_RDWR)


def _name() -> str:
    return f"{secrets.token_hex(16)}{SUFFIX}"


def _left(path: Path) -> LeftOpen | None:
    """None when it is somebody's, or gone."""
    file = locked_files.left(path, os.O_RDWR)
    if file is None:
        return None
    return LeftOpen(path, file, _opened(path, os.pread(file, 1 << 20, 0)))


def _opened(path: Path, content: bytes) -> Opened | None:
    try:
        return _decode(content) if content.strip() else None
    except (msgspec.DecodeError, RecursionError) as error:
        logger.error("%s cannot be read, what it was of is not recorded: %s", path, error)
        return None
