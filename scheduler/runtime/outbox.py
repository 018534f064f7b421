"""A connection's replies, on their way to its peer."""

from __future__ import annotations

import asyncio
import logging

logger = logging.getLogger(__name__)

UNREAD_LIMIT = 16 << 20
"""Bytes of replies that a peer may leave unread before its connection is cut."""


class Outbox:
    """All the replies to what has come, or of one turn of the loop, go out in one write: each costs
    a system call. Of one line that has come alone, the reply goes out before the books are kept."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.transport: asyncio.Transport | None = None
        """None when the connection is over."""
        self._loop = loop
        self._lines: list[bytes] = []
        self._gathers = False
        self._is_alone = False

    def gather(self, came: bytes) -> None:
        """Lines have come: `write` follows when they are done."""
        self._gathers, self._is_alone = True, came.count(b"\n") == 1

    def send(self, line: bytes) -> None:
        if not self._lines and not self._gathers:
            self._loop.call_soon(self.write)
        self._lines.append(line)
        if self._is_alone:
            self.write()

    def write(self) -> None:
        self._gathers = self._is_alone = False
        lines, self._lines = self._lines, []
        if not lines or self.transport is None or self.transport.is_closing():
            return
        self.transport.write(b"\n".join([*lines, b""]))
        if self.transport.get_write_buffer_size() > UNREAD_LIMIT:
            logger.warning("a peer does not read its replies: its connection is cut")
            self.transport.abort()
