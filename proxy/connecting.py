"""Connecting to a child, wherever it listens."""

from __future__ import annotations

import asyncio
import socket

CONNECT_AGAIN_SECONDS = 0.01


class UpstreamFailed(Exception):
    """The child could not be reached, or its connection broke: it is dead, or going."""


async def connected(address: str, seconds: float) -> socket.socket:
    """To the path of a Unix socket, or to host:port. Raises UpstreamFailed."""
    try:
        if address.startswith("/"):
            return await _to_path(address, seconds)
        async with asyncio.timeout(seconds):
            return await _to_port(address)
    except (OSError, TimeoutError) as error:
        raise UpstreamFailed(str(error) or "it took too long to connect") from error


async def _to_path(address: str, seconds: float) -> socket.socket:
    """Connecting takes no time, unless many come at once: then the child has not accepted those
    before us yet."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            connection.connect(address)
            return connection
        except BlockingIOError:
            connection.close()
            if loop.time() >= deadline:
                raise
        except BaseException:
            connection.close()
            raise
        await asyncio.sleep(CONNECT_AGAIN_SECONDS)


async def _to_port(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    except BaseException:
        connection.close()
        raise
    return connection
