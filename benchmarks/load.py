"""Load as cheap as possible: persistent connections, one canned request, answers only counted."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import cast

import uvloop

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Load:
    """What is asked of a subject in one round."""

    name: str
    clients: int
    stream: bool

    def request(self, key: str) -> bytes:
        messages = [{"role": "user", "content": "Say hi."}]
        body = json.dumps({"model": "alpha", "messages": messages, "stream": self.stream})
        return (
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


class _Client(asyncio.Protocol):
    def __init__(self, request: bytes, stop_at: float) -> None:
        self.answered = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._stop_at = stop_at
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not _is_whole(self._buffer):
            return
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self._fail(f"no success: {bytes(self._buffer[:500])!r}")
            return
        self._buffer.clear()
        self.answered += 1
        if time.monotonic() < self._stop_at:
            self._transport.write(self._request)
        else:
            self._transport.close()
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self._fail(f"the connection broke: {error}")

    def _fail(self, what: str) -> None:
        self._transport.abort()
        if not self.over.done():
            self.over.set_exception(RuntimeError(what))

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def _is_whole(buffer: bytearray) -> bool:
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = _LENGTH.search(buffer, 0, end)
    if length:
        return len(buffer) >= end + 4 + int(length[1])
    return buffer.endswith(b"\r\n0\r\n\r\n")


def per_second(port: int, load: Load, key: str, seconds: float) -> float:
    """Whole answers a second. Raises RuntimeError on anything but a whole 200."""
    return uvloop.run(_measure(port, load, key, seconds))


async def _measure(port: int, load: Load, key: str, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    request, started = load.request(key), time.monotonic()
    clients = []
    for _ in range(load.clients):
        _, client = await loop.create_connection(
            lambda: _Client(request, started + seconds), "127.0.0.1", port
        )
        clients.append(client)
    async with asyncio.timeout(seconds + 30):
        await asyncio.gather(*[client.over for client in clients])
    return sum(client.answered for client in clients) / (time.monotonic() - started)
