"""Questions to live processes: does the scheduler answer, does a web process?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from scheduler.protocol import LINE_LIMIT, Operation, Ping, Reply


async def ask(control_socket: Path, operation: Operation, timeout_seconds: float) -> Reply | None:
    """The scheduler's reply; None when nobody answers in time."""
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_unix_connection(control_socket, limit=LINE_LIMIT)
            try:
                writer.write(msgspec.json.encode(operation) + b"\n")
                await writer.drain()
                line = await reader.readline()
            finally:
                writer.close()
        return msgspec.json.decode(line, type=Reply)
    except (OSError, TimeoutError, ValueError, msgspec.DecodeError):
        return None


async def scheduler_answers(control_socket: Path, timeout_seconds: float = 3.0) -> bool:
    reply = await ask(control_socket, Ping(id=1), timeout_seconds)
    return reply is not None and reply.error is None


async def web_answers(url: str, timeout_seconds: float = 3.0) -> bool:
    """Also true for a process that lives and serves other host names than this one."""
    address = urlsplit(url)
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            try:
                writer.write(
                    b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                status = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return False
    return status.startswith(b"HTTP/1.1 200") or status.startswith(b"HTTP/1.1 403")
