"""Our uvicorn protocol on a loopback socket, with an application of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from routerproj.servers.limits import Limits
from routerproj.servers.uvicorn_protocol import protocol_class

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def server(
    application: Any, *, ws: Any = "none", ping_seconds: float = 20.0, **changed: Any
) -> AsyncIterator[Connect]:
    limits = Limits(
        **{
            "max_headers": 2000,
            "header_timeout_seconds": 30.0,
            "keep_alive_seconds": 30.0,
            "max_connections": 10,
            "drain_timeout_seconds": 1.0,
            "slow_reader_timeout_seconds": 30.0,
            "max_message": 1 << 20,
            **changed,
        }
    )
    http = protocol_class(limits)
    config = uvicorn.Config(
        application,
        http=http,
        ws=ws,
        ws_max_size=limits.max_message,
        ws_per_message_deflate=False,
        ws_ping_interval=ping_seconds,
        ws_ping_timeout=ping_seconds,
        lifespan="off",
        log_config=None,
    )
    config.timeout_keep_alive = limits.keep_alive_seconds
    config.load()
    state = ServerState()
    listening = await asyncio.get_running_loop().create_server(
        lambda: http(config, state, {}), "127.0.0.1", 0
    )
    port = listening.sockets[0].getsockname()[1]
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # A small limit: a test that does not read must not be read for by its own stream.
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
        writers.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in writers:
            writer.close()
        listening.close()
        for connection in list(state.connections):
            connection.transport.raw.abort()
        await asyncio.sleep(0)
        await listening.wait_closed()
