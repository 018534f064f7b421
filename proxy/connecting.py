"""Connecting to a child, wherever it listens."""

from __future__ import annotations

import asyncio
import socket
from _socket import socket as Socket

PATH = int(socket.AF_UNIX)
NOT_BLOCKING = int(socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
"""Plain numbers, and the bare class: Python's own makes an enumeration of each at every look."""

CONNECT_AGAIN_SECONDS = 0.01


class UpstreamFailed(Exception):
    """The child could not be reached, or its connection broke: it is dead, or going."""


async def connected(address: str, seconds: float) -> Socket:
    """To the path of a Unix socket, or to host:port. Raises UpstreamFailed."""
    try:
        if address.startswith("/"):
            return await _to_path(address, seconds)
        async with asyncio.timeout(seconds):
            return await _to_port(address)
    except (OSError, TimeoutError) as error:
        raise UpstreamFailed(str(error) or "it took too long to connect") from error


async def _to_path(address: str, seconds: float) -> Socket:
    """Connecting takes no time, unless many come at once: then the child has not accepted those
    before us yet."""
    loop = asyncio.get_running_loop()
    deadline: float | None = None
    while True:
        connection = Socket(PATH, NOT_BLOCKING)
        try:
            connection.connect(address)
            return connection
        except BlockingIOError:
            connection.close()
            now = loop.time()
            deadline = now + seconds if deadline is None else deadline
            if now >= deadline:
                raise
        except BaseException:
            connection.close()
            raise
        await asyncio.sleep(CONNECT_AGAIN_SECONDS)


async def _to_port(address: str) -> Socket:
    host, _, port = address.rpartition(":")
    connection = socket.socket(socket.AF_INET, NOT_BLOCKING)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    except BaseException:
        connection.close()
        raise
    return Socket(fileno=connection.detach())
