"""A client that asks and does not read is cut off, whatever the answer and however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proxy.watch import CLIENT_GONE
from tests.django.uvicorn_connections import server

LARGE = 32 << 20
GET = b"GET / HTTP/1.1\r\nHost: l\r\n\r\n"


def large(ended: asyncio.Event, *headers: tuple[bytes, bytes], parts: int = 1) -> Any:
    async def answers(scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][CLIENT_GONE].add_done_callback(lambda _: ended.set())
        length = (b"content-length", b"%d" % LARGE)
        await send({"type": "http.response.start", "status": 200, "headers": [length, *headers]})
        for part in range(parts):
            body = b"x" * (LARGE // parts)
            more = part + 1 < parts
            await send({"type": "http.response.body", "body": body, "more_body": more})

    return answers


Application = Callable[[Any, Any, Any], Awaitable[None]]


@pytest.mark.parametrize("requests", [1, 5])
@pytest.mark.parametrize("headers", [[], [(b"connection", b"close")]])
@pytest.mark.parametrize("parts", [1, 64])
async def test_who_does_not_read_is_cut_off(
    requests: int, headers: list[tuple[bytes, bytes]], parts: int
) -> None:
    ended = asyncio.Event()
    application = large(ended, *headers, parts=parts)
    async with server(application, slow_reader_timeout_seconds=0.2) as connect:
        _, writer = await connect()
        writer.write(GET * requests)
        async with asyncio.timeout(30):
            await ended.wait()


async def test_small_answers_that_nobody_reads_do_not_keep_the_connection() -> None:
    """Their rest is below what the server waits for: it is the idle limit that closes."""
    ended = asyncio.Event()

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][CLIENT_GONE].add_done_callback(lambda _: ended.set())
        length = (b"content-length", b"%d" % 40_000)
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": b"x" * 40_000})

    limits = {"slow_reader_timeout_seconds": 0.2, "keep_alive_seconds": 0.2}
    async with server(answers, **limits) as connect:
        _, writer = await connect()
        writer.write(GET * 400)
        async with asyncio.timeout(30):
            await ended.wait()


async def test_who_reads_slowly_gets_everything() -> None:
    ended = asyncio.Event()
    async with server(large(ended), slow_reader_timeout_seconds=2.0) as connect:
        reader, writer = await connect()
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        left = LARGE
        while left:
            left -= len(await reader.read(4 << 20))
            await asyncio.sleep(0)

    assert head.startswith(b"HTTP/1.1 200")
