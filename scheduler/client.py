"""Asking the scheduler, from any other process: leases for the gateway, calls for everyone.

A lease belongs to the connection that took it, so a caller that is killed gives its slots back
without anyone having to notice. When the scheduler goes away, those who wait are asked for again as
soon as it is back; those who hold a lease see it as `lost`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from .calling import call as call
from .calling import decode_reply, line_of, refused_by, unavailable
from .protocol import (
    LONGEST_AGE,
    UNREADABLE_ID,
    Abandon,
    Acquire,
    Cancel,
    Ended,
    Granted,
    Happened,
    Load,
    Operation,
    Ping,
    PriorityName,
    Refused,
    Release,
    Reload,
    Reply,
    Shutdown,
    Snapshot,
    SnapshotState,
    Subscribe,
    Unload,
)

logger = logging.getLogger(__name__)

CALL_SECONDS = 10.0
"""How long a call other than acquire may take, a missing scheduler included."""
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5


class ConnectionLost(Exception):
    """The control connection broke before the reply."""


class Lease:
    """One request's hold on an instance. It ends by `release`; `abandon` says that its client has
    left while the child still works, and is followed by a `release` when the child has done."""

    def __init__(self, connection: _Connection, granted: Granted) -> None:
        self.lease = granted.lease
        self.preset = granted.preset
        self.instance = granted.instance
        self.address = granted.address
        self.filters = granted.filters
        self.lost = asyncio.Event()
        """Set when the control connection that held it broke."""
        self._connection = connection
        self._over = False

    async def release(
        self,
        *,
        died: bool = False,
        read: int | None = None,
        cached: int | None = None,
        answered: int | None = None,
    ) -> Ended | None:
        """Once; later calls do nothing. Tokens that nobody has counted are None. With `died` it
        tells how the instance ended, None when it still lives; else it returns at once. A
        connection that is gone is not an error."""
        if self._over:
            return None
        self._over = True
        self._connection.leases.discard(self)
        ask = Release(self._connection.next_id(), self.lease, died, read, cached, answered)
        if not died:
            self._connection.tell(ask)
            return None
        try:
            ok = await self._connection.ask(ask)
        except ConnectionLost:
            self.lost.set()  # it was no longer among the connection's leases
            return None
        except Refused as failure:
            logger.debug("how instance %d ended is not known: %s", self.instance, failure)
            return None
        return msgspec.convert(ok["ended"], Ended) if "ended" in ok else None

    def abandon(self) -> None:
        if not self._over:
            self._connection.tell(Abandon(self._connection.next_id(), self.lease))


class SchedulerClient:
    """One per process and event loop. It connects, and connects again, by itself."""

    def __init__(self, socket: Path, reconnect_wait_seconds: float = 30.0) -> None:
        self._socket = socket
        self._reconnect_wait_seconds = reconnect_wait_seconds
        self._connection: _Connection | None = None
        self._connected = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """The scheduler need not be there yet."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_connected(), name="scheduler-client")

    async def close(self) -> None:
        """Leases still held are lost, waiters refused."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def acquire(
        self,
        preset: str,
        *,
        tenant: str = "",
        kind: Literal["post", "get", "websocket"] = "post",
        age: float = 0.0,
        autoload: bool = True,
        weight: float = 1.0,
        priority: PriorityName = "normal",
        request: str = "",
        sticky: str = "",
    ) -> Lease:
        """Waits until the model is loaded and has a slot free. Raises Refused. `request` is what
        the client knows it by (at most 128 printable characters); those of one `sticky` come to the
        same one of several instances.

        Cancelling the call leaves the queue. A scheduler that goes away meanwhile is asked again,
        with the place of the first arrival, if it is back within the reconnect wait.
        """
        clock = asyncio.get_running_loop().time
        arrived = clock() - age
        while True:
            connection = await self._within(self._reconnect_wait_seconds)
            asked_ago = min(max(0.0, clock() - arrived), LONGEST_AGE)
            id = connection.next_id()
            ask = Acquire(
                id, preset, tenant, kind, asked_ago, autoload, weight, priority, request, sticky
            )
            try:
                ok = await connection.ask(ask)
            except ConnectionLost:
                continue
            except asyncio.CancelledError:
                # It may have been granted in this very moment: then the lease ends by this.
                connection.tell(Cancel(connection.next_id(), ask.id))
                raise
            lease = Lease(connection, msgspec.convert(ok, Granted))
            connection.hold(lease)
            return lease

    async def happenings(self) -> AsyncIterator[Happened]:
        """What happens to presets from now on, as long as the connection lasts; a first one that
        only has the number of the last change before. Raises ConnectionLost, or Refused when nobody
        answers."""
        connection = await self._within(CALL_SECONDS)
        async for ok in connection.subscribe():
            yield msgspec.convert(ok, Happened)

    async def snapshot(self) -> SnapshotState:
        return msgspec.convert(await self._call(Snapshot), SnapshotState)

    async def load(self, preset: str, *, wait: bool = False) -> dict[str, Any]:
        """Queued, or with `wait` loaded, however long that takes. Raises Refused."""
        if not wait:
            return await self._call(lambda id: Load(id, preset))
        connection = await self._within(CALL_SECONDS)
        ask = Load(connection.next_id(), preset, wait=True)
        try:
            return await connection.ask(ask)
        except ConnectionLost:
            raise unavailable() from None
        except asyncio.CancelledError:
            connection.tell(Cancel(connection.next_id(), ask.id))
            raise

    async def unload(self, preset: str, *, force: bool = False) -> dict[str, Any]:
        return await self._call(lambda id: Unload(id, preset, force))

    async def reload(self, revision: int = 0) -> dict[str, Any]:
        return await self._call(lambda id: Reload(id, revision))

    async def ping(self) -> None:
        await self._call(Ping)

    async def shutdown(self) -> None:
        await self._call(Shutdown)

    async def _call(self, operation: Callable[[int], Operation]) -> dict[str, Any]:
        """Once: it is not asked again when the scheduler goes away meanwhile."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                connection = await self._within(CALL_SECONDS)
                return await connection.ask(operation(connection.next_id()))
        except (TimeoutError, ConnectionLost):
            raise unavailable() from None

    async def _within(self, seconds: float) -> _Connection:
        """The connection, as soon as there is one. Raises Refused."""
        if self._connection is not None:
            return self._connection
        if self._keeper is None:
            raise unavailable()
        try:
            async with asyncio.timeout(seconds):
                while self._connection is None:
                    await self._connected.wait()
        except TimeoutError:
            raise unavailable() from None
        return self._connection

    async def _keep_connected(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, connection = await loop.create_unix_connection(
                    lambda: _Connection(self._lost, loop), str(self._socket)
                )
            except OSError as failure:
                logger.debug("no scheduler at %s: %s", self._socket, failure)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            pause = FIRST_PAUSE_SECONDS
            if not connection.broken.is_set():
                self._connection = connection
                self._connected.set()
            try:
                await connection.broken.wait()
            finally:
                connection.close()
            logger.warning("the connection to the scheduler has broken")

    def _lost(self) -> None:
        self._connection = None
        self._connected.clear()


class _Connection(asyncio.Protocol):
    """Replies find their asker by the id. What nobody waits for is dropped."""

    def __init__(self, lost: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._lost = lost
        self._loop = loop
        self.broken = asyncio.Event()
        self.leases: set[Lease] = set()
        self._askers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listeners: dict[int, asyncio.Queue[dict[str, Any] | None]] = {}
        self._ids = count(1)
        self._received = b""
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def next_id(self) -> int:
        return next(self._ids)

    def hold(self, lease: Lease) -> None:
        if self.broken.is_set():
            lease.lost.set()
        else:
            self.leases.add(lease)

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
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost
        reply: asyncio.Future[dict[str, Any]] = self._loop.create_future()
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
            reply = decode_reply(line)
            if reply.id == UNREADABLE_ID:
                self._give_up(reply)
                return
            self._answer(reply)

    def _give_up(self, reply: Reply) -> None:
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

    def _answer(self, reply: Reply) -> None:
        if (told := self._listeners.get(reply.id)) is not None:
            told.put_nowait(reply.ok)
            return
        asker = self._askers.get(reply.id)
        if asker is None or asker.done():
            return
        if reply.error is not None:
            asker.set_exception(refused_by(reply))
        else:
            asker.set_result(reply.ok or {})
