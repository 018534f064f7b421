"""A stand-in for a remote server: it reads requests off a TCP port and does as its script says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.protocol import Remote

from .fakes import Connection, Received, Script


class FakeRemote:
    """Its connections stay open between requests, until their script has closed them."""

    def __init__(self, script: Script) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        self.port = 0
        self.scheme = "http"
        self._script = script
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    def remote(self, key: str = "", path: str = "") -> Remote:
        return Remote(f"{self.url}{path}", key)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                await self._one(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = [line.partition(": ") for line in head[1:] if line]
        headers = [(name.lower(), value) for name, _, value in pairs]
        body = await reader.readexactly(int(dict(headers).get("content-length", 0)))
        self.received.append(Received(head[0], headers, body))
        self.arrived.set()
        await self._script(self.received[-1], RemoteConnection(reader, writer))


class RemoteConnection(Connection):
    def cut(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def fake_remote(
    script: Script, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeRemote]:
    remote = FakeRemote(script)
    server = await asyncio.start_server(remote.accept, "127.0.0.1", ssl=tls, limit=1 << 22)
    remote.port = server.sockets[0].getsockname()[1]
    remote.scheme = "https" if tls is not None else "http"
    try:
        yield remote
    finally:
        server.close()
        await remote.stop()
        await server.wait_closed()
