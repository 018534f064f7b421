"""Asking the scheduler, from any other process: leases for the gateway, calls for everyone.

A lease belongs to the connection that took it, so a caller that is killed gives its slots back
without anyone having to notice. When the scheduler goes away, those who wait are asked for again as
soon as it is back; those who hold a lease see it as `lost`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from models_registry.allowing import Allowed

from .calling import call as call
from .calling import unavailable
from .charging import NO_CHARGE, Charge
from .connection import Connection
from .connection import ConnectionLost as ConnectionLost
from .lease import Lease as Lease
from .protocol import (
    LONGEST_AGE,
    NO_OWN_NAMES,
    Acquire,
    Cancel,
    Detach,
    Devices,
    DevicesState,
    Figures,
    FiguresState,
    Granted,
    Happened,
    Keep,
    Load,
    Operation,
    OwnNames,
    Ping,
    PriorityName,
    Reload,
    Seen,
    Shutdown,
    Snapshot,
    SnapshotState,
    Stop,
    Stream,
    Streams,
    StreamsState,
    StreamState,
    Tell,
    Unload,
)
from .tally import Tallied

logger = logging.getLogger(__name__)

_granted = msgspec.json.Decoder(Granted).decode

CALL_SECONDS = 10.0
"""How long a call other than acquire may take, a missing scheduler included."""
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5


class Conversation:
    """One request for the stream of a client's own id, among those of `owner`; `detach` says that
    its client has lost its connection and may come back for the stream. `stream` is by which the
    child knows it, empty for an engine that cannot keep one; None before the lease."""

    def __init__(self, owner: str, id: str) -> None:
        self.owner = owner
        self.id = id
        self.detached = False
        self.stream: str | None = None
        self._waits_at: tuple[Connection, int] | None = None

    def detach(self) -> None:
        self.detached = True
        self._tell()

    def waits(self, connection: Connection, asked: int) -> None:
        """From the next turn of the loop on: then its acquire, `asked`, is on its way."""
        self._waits_at = connection, asked
        if self.detached:
            asyncio.get_running_loop().call_soon(self._tell)

    def is_answered(self, stream: str | None) -> None:
        """None: it has no lease."""
        self._waits_at, self.stream = None, stream

    def _tell(self) -> None:
        if self._waits_at is not None:
            connection, asked = self._waits_at
            connection.tell(Detach(connection.next_id(), asked))


class SchedulerClient:
    """One per process and event loop. It connects, and connects again, by itself."""

    def __init__(self, socket: Path, reconnect_wait_seconds: float = 30.0) -> None:
        self._socket = socket
        self._reconnect_wait_seconds = reconnect_wait_seconds
        self._connection: Connection | None = None
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
        own: OwnNames = NO_OWN_NAMES,
        conversation: Conversation | None = None,
        charge: Charge = NO_CHARGE,
        allowed: Allowed = (),
    ) -> Lease:
        """Waits until the model is loaded and has a slot free. Raises Refused. `request` is what
        the client knows it by (at most 128 printable characters); those of one `sticky` come to the
        same one of several instances; `own` is where the caller's own aliases lead, `allowed`
        which presets there are for it.

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
                id,
                preset,
                tenant,
                kind,
                asked_ago,
                autoload,
                weight,
                priority,
                request,
                sticky,
                own,
                *((conversation.id, conversation.owner) if conversation is not None else ("", "")),
                charge.limits,
                charge.id,
                charge.prompt,
                charge.cap,
                allowed,
            )
            try:
                return await self._leased(connection, ask, conversation)
            except ConnectionLost:
                continue

    async def _leased(
        self, connection: Connection, ask: Acquire, conversation: Conversation | None
    ) -> Lease:
        """Raises Refused, or ConnectionLost."""
        draining = connection.drains_of(ask.id) if ask.kind == "websocket" else None
        lease: Lease | None = None
        if conversation is not None:
            conversation.waits(connection, ask.id)
        try:
            granted = _granted(await connection.asked(ask))
            lease = Lease(connection, granted, ask.id, draining, ask.charge)
        except asyncio.CancelledError:
            # It may have been granted in this very moment: then the lease ends by this.
            connection.tell(Cancel(connection.next_id(), ask.id))
            raise
        finally:
            if conversation is not None:
                conversation.is_answered(None if lease is None else lease.stream)
            if lease is None:
                connection.forget(ask.id)
        connection.hold(lease)
        return lease

    async def stop(self, owner: str, conversation: str) -> None:
        """It ends, wherever it stands. Raises Refused where nobody answers."""
        await self._call(lambda id: Stop(id, conversation, owner))

    async def stream(self, owner: str, conversation: str) -> StreamState:
        """Raises Refused: `conversation_lost` too."""
        told = await self._call(lambda id: Stream(id, conversation, owner))
        return msgspec.convert(told, StreamState)

    async def streams(self, owner: str, conversations: list[str]) -> list[StreamState]:
        """Of those that have one of these ids, or one of them before a `::`."""
        told = await self._call(lambda id: Streams(id, conversations, owner))
        return msgspec.convert(told, StreamsState).streams

    def seen(self, owner: str, conversation: str, stream: str) -> None:
        """Its client has had all of it. Without waiting: what is not heard is kept for longer."""
        if (connection := self._connection) is not None:
            connection.tell(Seen(connection.next_id(), conversation, stream, owner))

    async def happenings(self) -> AsyncIterator[Happened]:
        """What happens to presets from now on, as long as the connection lasts; a first one that
        only has the number of the last change before. Raises ConnectionLost, or Refused when nobody
        answers."""
        connection = await self._within(CALL_SECONDS)
        async for ok in connection.subscribe():
            yield msgspec.convert(ok, Happened)

    async def snapshot(self) -> SnapshotState:
        return msgspec.convert(await self._call(Snapshot), SnapshotState)

    async def devices(self) -> DevicesState:
        return msgspec.convert(await self._call(Devices), DevicesState)

    async def tell(self, tallied: Tallied) -> None:
        """What has been counted here; few enough for one line. Raises Refused."""
        await self._call(lambda id: Tell(id, tallied))

    async def figures(self) -> FiguresState:
        return msgspec.convert(await self._call(Figures), FiguresState)

    async def load(
        self, preset: str, *, wait: bool = False, allowed: Allowed = ()
    ) -> dict[str, Any]:
        """Queued, or with `wait` loaded, however long that takes. Raises Refused."""
        if not wait:
            return await self._call(lambda id: Load(id, preset, allowed=allowed))
        connection = await self._within(CALL_SECONDS)
        ask = Load(connection.next_id(), preset, wait=True, allowed=allowed)
        try:
            return await connection.ask(ask)
        except ConnectionLost:
            raise unavailable() from None
        except asyncio.CancelledError:
            connection.tell(Cancel(connection.next_id(), ask.id))
            raise

    async def unload(
        self, preset: str, *, force: bool = False, allowed: Allowed = ()
    ) -> dict[str, Any]:
        return await self._call(lambda id: Unload(id, preset, force, allowed))

    async def keep(
        self,
        preset: str,
        tenant: str,
        seconds: float,
        own: OwnNames = NO_OWN_NAMES,
        allowed: Allowed = (),
    ) -> None:
        """The tenant's wish (protocol.Keep). Raises Refused."""
        await self._call(lambda id: Keep(id, preset, seconds, tenant, own, allowed))

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

    async def _within(self, seconds: float) -> Connection:
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
                    lambda: Connection(self._lost, loop), str(self._socket)
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
