"""Streams whose instance had to go before their clients came back: files in the run folder."""

from __future__ import annotations

import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

MOST_BYTES = 64 << 20
"""Of all kept streams together."""
PATTERN = "stream-*.kept"


@dataclass(frozen=True, slots=True)
class Kept:
    """`begin` is which byte of the stream is the file's first."""

    path: Path
    begin: int
    size: int


class KeptStreams:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes = 0

    def has_room(self, size: int) -> bool:
        return self._bytes + size <= MOST_BYTES

    def keep(self, begin: int, data: bytes) -> Kept | None:
        """None where the disk does not take it."""
        path = self._folder / f"stream-{secrets.token_hex(8)}.kept"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError as failure:
            logger.warning("a stream could not be kept: %s", failure)
            path.unlink(missing_ok=True)
            return None
        self._bytes += len(data)
        return Kept(path, begin, len(data))

    def clear(self) -> None:
        for path in self._folder.glob(PATTERN):
            path.unlink(missing_ok=True)

    def remove(self, kept: Kept) -> None:
        self._bytes -= kept.size
        kept.path.unlink(missing_ok=True)
