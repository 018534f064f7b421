"""A caller's end of a control connection: what is asked on it, and what is told unasked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any, Protocol, cast

import msgspec

from .calling import decode_line, line_of, refused_by
from .protocol import UNREADABLE_ID, Cancel, Operation, ReplyLine, Subscribe

logger = logging.getLogger(__name__)


class ConnectionLost(Exception):
    """The control connection broke before the reply."""


class Held(Protocol):
    """A lease that the connection holds."""

    lost: asyncio.Event


_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Connection(asyncio.Protocol):
    """Replies find their asker by the id. What nobody waits for is dropped."""

    def __init__(self, lost: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._lost = lost
        self._loop = loop
        self.broken = asyncio.Event()
        self.leases: set[Held] = set()
        self._askers: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._listeners: dict[int, asyncio.Queue[dict[str, Any] | None]] = {}
        self._drains: dict[int, asyncio.Event] = {}
        self._ids = count(1)
        self._received = b""
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def next_id(self) -> int:
        return next(self._ids)

    def hold(self, lease: Held) -> None:
        if self.broken.is_set():
            lease.lost.set()
        else:
            self.leases.add(lease)

    def drains_of(self, asked: int) -> asyncio.Event:
        """Set and cleared by what is said of the instance that the acquire `asked` is granted, from
        its first moment on; until `forget`."""
        draining = self._drains[asked] = asyncio.Event()
        return draining

    def forget(self, asked: int) -> None:
        self._drains.pop(asked, None)

    def tell(self, operation: Operation) -> None:
        """Without waiting for the reply; into the void when the connection is gone."""
        self._tell_line(line_of(operation))

    def _tell_line(self, line: bytes) -> None:
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(line)

    def close(self) -> None:
        """Send what is still to be sent, then close."""
        self._send()
        if self._transport is not None:
            self._transport.close()

    def _send(self) -> None:
        """All that one turn of the loop has told, in one write: each costs a system call."""
        lines, self._unsent = self._unsent, []
        if lines and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"\n".join([*lines, b""]))

    async def ask(self, operation: Operation) -> dict[str, Any]:
        """What the reply's `ok` holds. Raises Refused, or ConnectionLost."""
        return _decode(await self.asked(operation))

    async def asked(self, operation: Operation) -> msgspec.Raw:
        """The same as it stands in the line."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost
        reply: asyncio.Future[msgspec.Raw] = self._loop.create_future()
        line = line_of(operation)
        self._askers[operation.id] = reply
        try:
            self._tell_line(line)
            return await reply
        finally:
            self._askers.pop(operation.id, None)

    async def subscribe(self) -> AsyncIterator[dict[str, Any]]:
        """Every reply to a subscription, until the connection breaks: raises ConnectionLost."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost
        ask = Subscribe(self.next_id())
        told: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._listeners[ask.id] = told
        try:
            self.tell(ask)
            while (ok := await told.get()) is not None:
                yield ok
            raise ConnectionLost
        finally:
            self._listeners.pop(ask.id, None)
            self.tell(Cancel(self.next_id(), ask.id))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            reply = decode_line(line)
            if reply.id == UNREADABLE_ID:
                self._give_up(reply)
                return
            self._answer(reply)

    def _give_up(self, reply: ReplyLine) -> None:
        """One of our lines could not be read, and nobody knows which: its asker would wait on.
        All are refused, for to ask for the same again would end the same way."""
        logger.error("the scheduler could not read a line of ours: %s", reply.error)
        for asker in self._askers.values():
            if not asker.done():
                asker.set_exception(refused_by(reply))
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.broken.set()
        self._lost()
        for lease in self.leases:
            lease.lost.set()
        self.leases.clear()
        for asker in self._askers.values():
            if not asker.done():
                asker.set_exception(ConnectionLost())
        for told in self._listeners.values():
            told.put_nowait(None)

    def _answer(self, reply: ReplyLine) -> None:
        asker = self._askers.get(reply.id)
        if asker is not None and not asker.done():
            if reply.error is not None:
                asker.set_exception(refused_by(reply))
            else:
                asker.set_result(reply.ok)
        elif (told := self._listeners.get(reply.id)) is not None:
            told.put_nowait(None if reply.error is not None else _decode(reply.ok))
        elif (draining := self._drains.get(reply.id)) is not None and reply.error is None:
            said = _decode(reply.ok).get("draining")  # else it is a grant that came too late
            if said is not None:
                (draining.set if said else draining.clear)()
