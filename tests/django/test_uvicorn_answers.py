"""The head of an answer as our uvicorn protocol writes it, seen on a raw socket."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from tests.django.uvicorn_connections import server

Headers = list[tuple[bytes, bytes]]


async def told(
    headers: Headers, status: int = 200, body: bytes = b"hi", *, asks: str = "GET"
) -> bytes:
    """All that comes when an application answers so, and the client asks for nothing more."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async with server(application) as connect:
        reader, writer = await connect()
        writer.write(
            b"%b / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % asks.encode()
        )
        return await reader.read()


async def test_headers_are_told_in_their_order_with_small_names() -> None:
    answer = await told([(b"Content-Length", b"2"), (b"X-B", b"1"), (b"x-a", b""), (b"X-B", b"2")])

    lines = answer.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert [line for line in lines if not line.startswith((b"HTTP", b"date", b"server"))] == [
        b"content-length: 2", b"x-b: 1", b"x-a: ", b"x-b: 2", b"connection: close", b"", b"hi",
    ]  # fmt: skip


async def test_an_answer_of_no_stated_length_is_chunked() -> None:
    answer = await told([])

    assert b"\r\ntransfer-encoding: chunked\r\n" in answer
    assert answer.endswith(b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("asks", "status", "headers"),
    [
        ("HEAD", 200, []),
        ("GET", 204, [(b"content-length", b"0")]),
        ("HEAD", 200, [(b"content-length", b"2")]),
    ],
)
async def test_an_answer_without_a_body_has_none(asks: str, status: int, headers: Headers) -> None:
    answer = await told(headers, status, b"" if status == 204 else b"hi", asks=asks)

    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_a_connection_that_is_said_to_close_is_said_so_once() -> None:
    answer = await told([(b"content-length", b"2"), (b"Connection", b"Upgrade, Close")])

    assert answer.count(b"lose") == 1


@pytest.mark.parametrize("name", [b"a b", b"a:b", b"a\r\nb", b"\xfc(", b"a\0"])
async def test_what_is_no_name_of_a_header_is_not_sent(name: bytes) -> None:
    assert await told([(name, b"1")]) == b""


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb", b"\0", b"\x7f"])
async def test_a_value_that_would_be_another_line_is_not_sent(value: bytes) -> None:
    assert await told([(b"x-fine", b"1"), (b"x-odd", value)]) == b""


class Held:
    """What a request's scope holds on to."""


async def test_a_request_that_is_answered_is_no_garbage_to_be_looked_for() -> None:
    held = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        scope["state"]["of the request"] = body = Held()
        held.append(weakref.ref(body))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    gc.disable()
    try:
        async with server(application) as connect:
            reader, writer = await connect()
            for _ in range(2):  # a connection remembers its last request
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(0)
            assert held[0]() is None
    finally:
        gc.enable()
