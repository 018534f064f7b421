"""The HTTP client to the children: one fresh connection a request, over a child's Unix socket, or
over loopback where a server knows nothing else.

llama-server closes a connection after a streamed answer although it announced to keep it, so none
is ever reused. What is left of HTTP is small enough to be ours, and cheap (docs/decisions/0007):
a request is written in one go, and httptools parses what comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import httptools

from proxy.connecting import UpstreamFailed as UpstreamFailed
from proxy.connecting import connected
from proxy.headers import can_be_told
from proxy.wire import Wire

LONGEST_WHOLE = 1 << 20
"""Bytes. An answer of a stated length up to this begins when it is whole: a child sends it in one
go, and one that dies over it has, for the client, not begun to answer."""

LONGEST_HEAD = 64 << 10
HELD_UNREAD = 128 << 10
"""Bytes of an answer that may wait here for its reader; then the child has to wait."""


class Coming(Protocol):
    """An answer whose first bytes have come, as whoever passes it on sees it."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]: ...
    @property
    def is_stream(self) -> bool: ...
    @property
    def is_encoded(self) -> bool: ...
    @property
    def first(self) -> bytes: ...
    @property
    def ended(self) -> bool: ...
    async def more(self) -> bytes: ...


class Answer:
    """A request to a child and what it answers, on a connection of its own.

    `ask`, then `begin`, then `first` and as many `more` as it takes; `close` at any time. Whoever
    waits in `begin` or `more` may be cancelled and another go on; one at a time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_stream = False
        self.is_encoded = False
        """Its bytes are packed: nothing can be seen in them, nor said between them."""
        self.first = b""
        self.begun = False
        self._loop = loop
        self._wire: Wire | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._head_bytes = 0
        self._head_over = False
        self._ends_with_connection = False
        self._whole = 0
        self._parts: list[bytes] = []
        self._held = 0
        self._paused = False
        self._complete = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._writable: asyncio.Event | None = None

    async def ask(
        self, address: str, head: bytes, body: bytes | AsyncIterator[bytes], connect_seconds: float
    ) -> asyncio.Task[None] | None:
        """Send a request: its head as it is, and its body. Raises UpstreamFailed.

        A body in parts is sent in the background, by the task that is returned. Cancelled, or
        failed, it has sent nothing.
        """
        await self._connect(address, connect_seconds)
        if self._wire is None or self._wire.is_closing():
            raise UpstreamFailed("the connection broke at once")
        if isinstance(body, bytes):
            self._wire.write(head + body)
            return None
        self._writable = asyncio.Event()
        self._writable.set()
        self._wire.write(head)
        self._sending = self._loop.create_task(self._send(body), name="request body")
        return self._sending

    async def begin(self) -> None:
        """Wait for the first bytes of the answer, for all of them if it states that it is short.

        Raises UpstreamFailed.
        """
        while not self._complete:
            if self._error is not None and (self._whole or not self._parts):
                raise self._error
            if self._wire is None:
                raise UpstreamFailed("nothing was asked")
            if self._parts and not self._whole:
                break
            await self._change()
        self.first = self._take()
        self.begun = True

    @property
    def ended(self) -> bool:
        """Nothing more will come: `more` would say so at once."""
        return self._complete and not self._parts

    async def more(self) -> bytes:
        """The next bytes, as they come; empty at the end. Raises UpstreamFailed."""
        while not self._parts:
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._change()
        return self._take()

    def close(self) -> None:
        """Cut the connection, unless it has ended. May be called again."""
        if self._sending is not None:
            self._sending.cancel()
        if self._wire is not None:
            self._wire.abort()

    async def _connect(self, address: str, seconds: float) -> None:
        connection = await connected(address, seconds)
        self._parser = httptools.HttpResponseParser(self)
        self._wire = Wire(self._loop, connection, self)

    async def _send(self, body: AsyncIterator[bytes]) -> None:
        assert self._wire is not None
        assert self._writable is not None
        try:
            async for part in body:
                if self._wire.is_closing():
                    return
                self._wire.write(part)
                await self._writable.wait()
        except Exception as error:
            self._fail(error)  # to whoever waits for the answer

    async def _change(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _tell(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> bytes:
        taken = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        if self._paused and self._wire is not None and not self._wire.is_closing():
            self._paused = False
            self._wire.resume_reading()
        return taken

    def _fail(self, error: Exception) -> None:
        """The answer cannot be whole. What has come of it may still be taken."""
        if self._complete or self._error is not None:
            return
        self._error = error
        self.close()
        self._tell()

    # What the wire calls

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._complete or self._error is not None:
            return
        if not self._head_over:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # After a whole answer that is none of ours any more: it changes nothing.
            self._fail(UpstreamFailed(f"this is no answer: {error}"))
        if not self._head_over and self._head_bytes > LONGEST_HEAD:
            self._fail(UpstreamFailed("the head of the answer is too large"))
        if self._complete:
            self.close()
        elif self._held > max(HELD_UNREAD, self._whole) and not self._paused:
            assert self._wire is not None
            self._paused = True
            self._wire.pause_reading()
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self._parser = None  # it refers to us, too
        if self._writable is not None:
            self._writable.set()
        if self._ends_with_connection and exc is None and self._error is None:
            self._complete = True
            self._tell()
        else:
            self._fail(UpstreamFailed(str(exc or "the connection was closed")))

    def pause_writing(self) -> None:
        if self._writable is not None:
            self._writable.clear()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set()

    # What the parser calls. It stays in a message that is complete: the connection ends there.

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_over:
            self.headers.append((name.lower(), value.rstrip()))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if self._head_over:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:  # an interim answer; the real one follows
            self.headers.clear()
            return
        self._head_over = True
        self._read_head()

    def _read_head(self) -> None:
        if not can_be_told(self.status, self.headers):
            raise UpstreamFailed("its head holds what HTTP has not")
        length: int | None = None
        chunked = False
        for name, value in self.headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                if value.lower() != b"chunked":
                    raise UpstreamFailed("the answer is encoded for the transfer")
                chunked = True
            elif name == b"content-type":
                kind = value.partition(b";")[0].strip().lower()
                self.is_stream = kind == b"text/event-stream"
            elif name == b"content-encoding":
                self.is_encoded = value.lower() != b"identity"
        self._ends_with_connection = length is None and not chunked
        if length is not None and length <= LONGEST_WHOLE:
            self._whole = length

    def on_body(self, body: bytes) -> None:
        if not self._complete:
            self._parts.append(body)
            self._held += len(body)

    def on_message_complete(self) -> None:
        self._complete = self._head_over
