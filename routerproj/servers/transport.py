"""What stands between uvicorn's protocol and the socket: one write a turn of the loop, a close that
lets the client read why, and an end for clients that do not read at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

LINGER_SECONDS = 2.0
"""How long what a refused client still sends is read and dropped. Closing at once would reset the
connection, and the client would not see why."""

WRITE_AT_ONCE = 64 << 10


class SlowReader:
    """Ends a connection whose client takes nothing of what waits for it for `longest_seconds`.

    What is taken is seen in the transport's buffer, so it holds for every answer: the gateway's,
    Django's, and the rest of one whose connection is closing already.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.WriteTransport,
        longest_seconds: float,
    ) -> None:
        self.written = 0
        """Bytes handed to the transport so far."""
        self._loop = loop
        self._transport = transport
        self._longest_seconds = longest_seconds
        self._taken = 0
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Until the client has taken everything."""
        if self._timer is not None:
            return
        waiting = self._transport.get_write_buffer_size()
        if waiting:
            self._taken = self.written - waiting
            self._since = self._loop.time()
            self._look_again()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_again(self) -> None:
        self._timer = self._loop.call_later(self._longest_seconds / 4, self._look)

    def _look(self) -> None:
        self._timer = None
        waiting = self._transport.get_write_buffer_size()
        if not waiting:
            return
        taken = self.written - waiting
        if taken != self._taken:
            self._taken = taken
            self._since = self._loop.time()
        elif self._loop.time() - self._since >= self._longest_seconds:
            logger.warning("connection cut: its client does not read (%d bytes wait)", waiting)
            self._transport.abort()
            return
        self._look_again()


class LingeringTransport(asyncio.Transport):
    """A transport whose `close()` waits for the client to stop sending, when it still does.

    What one turn of the loop writes leaves in one system call: the head of an answer with its first
    bytes, and a short answer whole.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        client_still_sends: Callable[[], bool],
        slow_reader_seconds: float,
        left: Callable[[], None] = lambda: None,
    ) -> None:
        """`left` is called once, when the connection is over."""
        super().__init__()
        self.raw = transport
        self._left = left
        self.lingering = False
        self.reader = SlowReader(loop, transport, slow_reader_seconds)
        self._loop = loop
        self._client_still_sends = client_still_sends
        self._timer: asyncio.TimerHandle | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.raw.set_protocol(protocol)

    def write(self, data: bytes) -> None:  # type: ignore[override]
        if not self._unsent:
            self._loop.call_soon(self._write)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > WRITE_AT_ONCE:
            self._write()  # so that a client who does not read is waited for

    def _write(self) -> None:
        parts, size = self._unsent, self._unsent_bytes
        self._unsent, self._unsent_bytes = [], 0
        if parts and not self.raw.is_closing():
            self.reader.written += size
            self.raw.write(b"".join(parts))

    def close(self) -> None:
        if self.lingering or self.raw.is_closing():
            return
        self._write()
        if not self._client_still_sends():
            self.raw.close()
            self.reader.watch()
            return
        self.lingering = True
        if self.raw.can_write_eof():
            self.raw.write_eof()
        self.raw.resume_reading()
        self._timer = self._loop.call_later(LINGER_SECONDS, self.raw.abort)

    def gone(self) -> None:
        left, self._left = self._left, lambda: None
        left()
        self.reader.stop()
        if self._timer is not None:
            self._timer.cancel()

    def is_closing(self) -> bool:
        return self.lingering or self.raw.is_closing()

    def abort(self) -> None:
        self.raw.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.raw.get_extra_info(name, default)

    def pause_reading(self) -> None:
        if not self.lingering:
            self.raw.pause_reading()

    def resume_reading(self) -> None:
        if not self.raw.is_closing():
            self.raw.resume_reading()
