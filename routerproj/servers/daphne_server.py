"""daphne on inherited sockets, with the same ending as far as it can.

What it cannot (docs/decisions/0001): key before body, waiting for slow readers, header limits with
an answer. Its answers leave by a buffer that it does not show: a client that reads slowly may lose
the end of its answer when the process stops.
"""

# daphne installs Twisted's asyncio reactor on import: it must come before anything of Twisted.
from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from twisted.internet import reactor

from routerproj.servers.daphne_sockets import (
    OPENING_SECONDS,
    Inbox,
    SocketFactory,
    SocketProtocol,
    with_answers,
)
from routerproj.servers.lifespan import Lifespan
from routerproj.servers.limits import PING_SECONDS, Limits, notice_dead_clients

logger = logging.getLogger(__name__)

Drain = Callable[[float], Awaitable[None]]

FLUSH_SECONDS = 0.3
CUT_SECONDS = 2.0
"""After the drain timeout: what the gateway's own last words may take."""


class CuttableRequest(WebRequest):  # type: ignore[misc]
    def handle_reply(self, message: Any) -> None:
        """An answer that says it is the connection's last one is: what stands behind a request that
        can be read in two ways is not taken for another. (Daphne only sends the words.)"""
        headers = message.get("headers", ())
        if (b"connection", b"close") in map(tuple, headers) and self.channel is not None:
            self.channel.persistent = False
        super().handle_reply(message)

    def handle_exception(self, exception: BaseException) -> None:
        """Daphne would send an error page into the answer that has begun, and fail at that for
        good: its checker of applications would never run again."""
        if self._response_started:
            self.channel.forceAbortClient()
        else:
            super().handle_exception(exception)


class CuttingFactory(HTTPFactory):  # type: ignore[misc]
    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = CuttableRequest
        return protocol


class GracefulDaphne(Server):  # type: ignore[misc]
    def __init__(
        self,
        application: Any,
        listeners: Sequence[socket.socket],
        limits: Limits,
        drain: Drain,
    ) -> None:
        super().__init__(
            application,
            endpoints=[f"fd:fileno={listener.fileno()}" for listener in listeners],
            signal_handlers=False,
            http_timeout=None,  # it would end long answers; the gateway has its own limits
            application_close_timeout=10,
            websocket_timeout=-1,  # the gateway has its own
            websocket_connect_timeout=OPENING_SECONDS,
            ping_interval=int(PING_SECONDS),
            verbosity=0,
            server_name="",
        )
        self.endpoints: list[
            str
        ] = []  # adopted by hand below: as text it could only be an IPv4 socket
        self._listeners = listeners
        self._limits = limits
        self._drain = drain
        self._drain_timeout_seconds = limits.drain_timeout_seconds
        self._lifespan = Lifespan(application)
        self._ports: list[Any] = []
        self._ending: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self.failed = False

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if not isinstance(protocol, SocketProtocol):
            return super().create_application(protocol, scope)
        inbox = Inbox(protocol)
        send = partial(self.handle_reply, protocol)
        running = asyncio.ensure_future(self.application(with_answers(scope), inbox.get, send))
        self.connections[protocol]["application_instance"] = running
        return inbox

    async def handle_reply(self, protocol: Any, message: Any) -> None:
        await super().handle_reply(protocol, message)
        if isinstance(protocol, SocketProtocol):
            await protocol.writable.wait()

    def run(self) -> None:
        reactor.callWhenRunning(self._started)
        super().run()

    def kill_all_applications(self) -> None:
        """Nothing is left to kill: `_end` waited, then cancelled. (Daphne's own fails with a
        KeyError on a connection that has no application.)"""

    def _started(self) -> None:
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        self._starting = loop.create_task(self._start(), name="lifespan startup")

    async def _start(self) -> None:
        try:
            await self._lifespan.startup()
            self.http_factory = CuttingFactory(self)
            self.ws_factory = SocketFactory(self, self._limits)
            for listener in self._listeners:
                with listener:  # adopting makes a descriptor of its own
                    port = reactor.adoptStreamPort(
                        listener.fileno(), listener.family, self.http_factory
                    )
                self._ports.append(port)
        except Exception:
            logger.exception("the application could not start")
            self.failed = True
            self.stop()

    def _signalled(self, number: int) -> None:
        if self._ending is not None:
            os._exit(128 + number)
        self._ending = asyncio.get_event_loop().create_task(self._end(), name="ending")

    async def _end(self) -> None:
        try:
            for port in self._ports:
                stopped = port.stopListening()
                if stopped is not None:
                    await stopped.asFuture(asyncio.get_running_loop())
            await self._drain(self._drain_timeout_seconds)
            await self._wait_for_answers(CUT_SECONDS)
            await self._lifespan.shutdown()
        except Exception:
            logger.exception("the server did not end cleanly")
            self.failed = True
        finally:
            self.stop()

    async def _wait_for_answers(self, longest_seconds: float) -> None:
        running = self._running()
        if running:
            _, late = await asyncio.wait(running, timeout=longest_seconds)
            for application in late:
                application.cancel()
        await asyncio.sleep(FLUSH_SECONDS)

    def _running(self) -> list[asyncio.Future[None]]:
        applications = (c.get("application_instance") for c in self.connections.values())
        return [a for a in applications if a is not None and not a.done()]


def serve(
    application: Any, listeners: Sequence[socket.socket], limits: Limits, drain: Drain
) -> bool:
    """Until SIGTERM or SIGINT. True when it ended as asked."""
    for listener in listeners:
        notice_dead_clients(listener, limits)
    server = GracefulDaphne(application, listeners, limits, drain)
    server.run()
    return not server.failed
