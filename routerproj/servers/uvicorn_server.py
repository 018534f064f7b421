"""uvicorn on inherited sockets, with our protocol class and our ending."""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn

from routerproj.servers.limits import PING_SECONDS, Limits, notice_dead_clients
from routerproj.servers.uvicorn_protocol import protocol_class
from routerproj.servers.uvicorn_sockets import SocketProtocol

Drain = Callable[[float], Awaitable[None]]

CUT_SECONDS = 2
"""After the drain timeout: what the gateway's own last words may take."""


class GracefulServer(uvicorn.Server):
    """The first signal: stop accepting, let running answers end, for as long as the drain may take.
    The second: gone at once."""

    def __init__(self, config: uvicorn.Config, drain: Drain, drain_timeout_seconds: float) -> None:
        super().__init__(config)
        self._drain = drain
        self._drain_timeout_seconds = drain_timeout_seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._drain_gateway(), name="drain")
            tasks.create_task(super().shutdown(sockets), name="shutdown")

    async def _drain_gateway(self) -> None:
        await self._drain(self._drain_timeout_seconds)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not kept for raising again: a stop that was asked for ends with exit code 0.
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True


def serve(
    application: Any, listeners: Sequence[socket.socket], limits: Limits, drain: Drain
) -> None:
    """Until SIGTERM or SIGINT. Other processes may accept from the same sockets."""
    for listener in listeners:
        notice_dead_clients(listener, limits)
    config = uvicorn.Config(
        application,
        http=protocol_class(limits),
        ws=SocketProtocol,
        ws_max_size=limits.max_message,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # a kilobyte may stand for a megabyte
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # X-Forwarded-For is not to be believed unless asked for
        server_header=False,
        timeout_keep_alive=math.ceil(limits.keep_alive_seconds),
        timeout_graceful_shutdown=math.ceil(limits.drain_timeout_seconds) + CUT_SECONDS,
    )
    GracefulServer(config, drain, limits.drain_timeout_seconds).run(sockets=list(listeners))
