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

from .calling import call as call
from .calling import unavailable
from .connection import Connection
from .connection import ConnectionLost as ConnectionLost
from .protocol import (
    LONGEST_AGE,
    NO_OWN_NAMES,
    Abandon,
    Acquire,
    Cancel,
    Ended,
    Granted,
    Happened,
    Heard,
    Load,
    Operation,
    OwnNames,
    Ping,
    PriorityName,
    Refused,
    Release,
    Reload,
    Shutdown,
    Snapshot,
    SnapshotState,
    Unload,
)

logger = logging.getLogger(__name__)

CALL_SECONDS = 10.0
"""How long a call other than acquire may take, a missing scheduler included."""
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5


class Lease:
    """One request's hold on an instance. It ends by `release`; `abandon` says that its client has
    left while the child still works, and is followed by a `release` when the child has done."""

    def __init__(
        self,
        connection: Connection,
        granted: Granted,
        asked: int,
        draining: asyncio.Event | None = None,
    ) -> None:
        """`asked` is the id of the acquire that it was granted for."""
        self.lease = granted.lease
        self.preset = granted.preset
        self.instance = granted.instance
        self.address = granted.address
        self.filters = granted.filters
        self.remote = granted.remote
        self.model = granted.model
        self.limits = granted.limits
        self.lost = asyncio.Event()
        """Set when the control connection that held it broke."""
        self.draining = draining or asyncio.Event()
        """Of a WebSocket's: set while its instance drains, which waits for the lease's end."""
        self._connection = connection
        self._asked = asked
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
        self._connection.forget(self._asked)
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

    def heard(self, failed: str = "") -> None:
        """Of a remote: it began to answer, or failed in this way."""
        if not self._over:
            self._connection.tell(Heard(self._connection.next_id(), self.lease, failed))

    def abandon(self) -> None:
        if not self._over:
            self._connection.tell(Abandon(self._connection.next_id(), self.lease))


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
    ) -> Lease:
        """Waits until the model is loaded and has a slot free. Raises Refused. `request` is what
        the client knows it by (at most 128 printable characters); those of one `sticky` come to the
        same one of several instances; `own` is where the caller's own aliases lead.

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
            )
            draining = connection.drains_of(id) if kind == "websocket" else None
            lease: Lease | None = None
            try:
                ok = await connection.ask(ask)
                lease = Lease(connection, msgspec.convert(ok, Granted), id, draining)
            except ConnectionLost:
                continue
            except asyncio.CancelledError:
                # It may have been granted in this very moment: then the lease ends by this.
                connection.tell(Cancel(connection.next_id(), ask.id))
                raise
            finally:
                if lease is None:
                    connection.forget(id)
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
