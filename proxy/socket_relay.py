"""An open WebSocket between a client and a child: messages both ways, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

from proxy.attempts import broken_off
from proxy.child_socket import BROKEN, GOING_AWAY, ChildClosed, ChildSocket
from proxy.client_socket import RESTART, ClientClosed, ClientSocket, Closing, closing_for
from proxy.conf import ProxyConfig
from proxy.forwarding import key_ended
from proxy.usage.meter import Meter
from proxy.usage.said import SaidUsage
from proxy.watch import Cause, Interrupted, Watch
from scheduler.client import Lease

LAST_WORDS_SECONDS = 1.0
"""What a client may take to hear that its WebSocket ends: one that does not read would take for
ever."""

STOPPING = Closing(RESTART, "shutting_down: the gateway is shutting down; connect again")
DRAINING = Closing(RESTART, "model_stopped: the instance makes way; connect again")
LOST = Closing(RESTART, "scheduler_unavailable: the model went with the scheduler; connect again")

Side = Literal["client", "child", "nobody"]


class Ending(Exception):
    """How a WebSocket ends: who has closed it, and what the others are to be told. `closing` is
    None when the child has gone without a word."""

    def __init__(self, by: Side, closing: Closing | None) -> None:
        super().__init__(by, closing)
        self.by = by
        self.closing = closing


class SocketRelay:
    """Each direction has one message in hand at a time: whoever does not take it stops the other
    from sending the next."""

    def __init__(
        self,
        client: ClientSocket,
        child: ChildSocket,
        lease: Lease,
        config: ProxyConfig,
        stopping: asyncio.Event,
        meter: Meter,
    ) -> None:
        """`stopping` is set when the gateway takes no new work."""
        self._client = client
        self._child = child
        self._lease = lease
        self._config = config
        self._stopping = stopping
        self._meter = meter
        self._said = SaidUsage()
        self._clock = asyncio.get_running_loop().time
        self._begun = self._last = self._clock()
        """When it began, and when the last message was passed on."""

    async def run(self, watch: Watch) -> None:
        """To its end: both sides have been told, and the lease is over."""
        ending = Ending("nobody", Closing(BROKEN, "internal_error"))
        try:
            ending = await self._until_it_ends(watch)
        finally:
            try:
                closing = ending.closing or await self._how_it_died()
                await self._say_goodbye(ending.by, closing)
            finally:
                counted = self._said.counted()
                self._meter.closed(counted)
                await self._lease.release(
                    read=counted.read, cached=counted.cached, answered=counted.answered
                )

    async def _until_it_ends(self, watch: Watch) -> Ending:
        works: list[Coroutine[Any, Any, None]] = [
            self._from_client(),
            self._from_child(),
            self._until_limit(),
            self._until_quiet(self._lease.draining, DRAINING),
            self._until_quiet(self._stopping, STOPPING),
        ]
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            with watch:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            next(task for task in tasks if task in done).result()
            raise AssertionError("each of them ends by raising")
        except Ending as ending:
            return ending
        except Interrupted as interrupted:  # nothing else is set any more
            ended = interrupted.cause is Cause.KEY_ENDED
            return Ending("nobody", closing_for(key_ended()) if ended else STOPPING)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _from_client(self) -> None:
        try:
            while True:
                message = await self._client.receive()
                await self._child.send(message)
                self._last = self._clock()
        except ClientClosed as closed:
            raise Ending("client", closed.closing) from None
        except ChildClosed as closed:
            raise Ending("child", closed.closing) from None

    async def _from_child(self) -> None:
        try:
            while True:
                message = await self._child.receive()
                if self._said.hear(message):
                    self._meter.so_far(self._said.counted())
                await self._client.send(message)
                self._last = self._clock()
        except ChildClosed as closed:
            raise Ending("child", closed.closing) from None
        except ClientClosed as closed:
            raise Ending("client", closed.closing) from None

    async def _until_limit(self) -> None:
        idle, longest = self._config.websocket_idle_seconds, self._config.websocket_seconds
        while True:
            left = min(self._last + idle, self._begun + longest) - self._clock()
            if left > 0:
                await asyncio.sleep(left)
            elif self._clock() >= self._begun + longest:
                why = f"a WebSocket lasts {longest:g} s at most: CORRAL_WEBSOCKET_TIMEOUT"
                raise Ending("nobody", Closing(GOING_AWAY, why))
            else:
                why = f"no message for {idle:g} s: CORRAL_WEBSOCKET_IDLE"
                raise Ending("nobody", Closing(GOING_AWAY, why))

    async def _until_quiet(self, wanted: asyncio.Event, closing: Closing) -> None:
        """From when its end is `wanted`, the first time that nothing is said for a moment."""
        quiet = self._config.websocket_quiet_seconds
        while True:
            await wanted.wait()
            left = self._last + quiet - self._clock()
            if left > 0:
                await asyncio.sleep(left)
            elif wanted.is_set():
                raise Ending("nobody", closing)

    async def _how_it_died(self) -> Closing:
        """What is to be told of a child that has gone without a word. Ends the lease."""
        counted = self._said.counted()
        ended = await self._lease.release(
            died=True, read=counted.read, cached=counted.cached, answered=counted.answered
        )
        if self._lease.lost.is_set():
            return LOST
        refused = broken_off(ended, self._lease.preset)
        code = RESTART if refused.code == "model_stopped" else BROKEN
        return Closing(code, f"{refused.code}: {refused.message}")

    async def _say_goodbye(self, by: Side, closing: Closing) -> None:
        """To whoever has not closed it; at once to both, for each may take its time."""
        goodbyes: list[Coroutine[Any, Any, None]] = []
        if by != "client":
            goodbyes.append(self._tell_client(closing))
        goodbyes.append(self._child.close(closing))
        await asyncio.gather(*goodbyes)

    async def _tell_client(self, closing: Closing) -> None:
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._client.close(closing)
        except TimeoutError:
            pass  # it does not read: the server cuts it
