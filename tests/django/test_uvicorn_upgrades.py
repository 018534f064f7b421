"""A request that asks for another protocol is a plain request, whatever its body looks like."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.django.uvicorn_connections import server

H2C = (
    b"Host: l\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABk\r\n"
)
INNER = b"GET /smuggled HTTP/1.1\r\nHost: l\r\n\r\n"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    told = json.dumps([scope["method"], scope["path"], body.decode()]).encode()
    headers = [(b"content-length", b"%d" % len(told))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


async def told(*parts: bytes, ws: str = "none") -> list[Any]:
    """What the application saw of each request, in order; the last one closes the connection."""
    last = b"GET /last HTTP/1.1\r\nHost: l\r\nConnection: close\r\n\r\n"
    async with server(echo, ws=ws, header_timeout_seconds=20.0) as connect:
        reader, writer = await connect()
        for part in (*parts, last):
            writer.write(part)
            await asyncio.sleep(0.005)
        async with asyncio.timeout(30):
            answers = await reader.read()
    found = [json.loads(text) for text in re.findall(rb'\["[A-Z]+", .*?\](?=HTTP|$)', answers)]
    assert found.pop() == ["GET", "/last", ""]
    return found


@pytest.mark.parametrize("upgrade", [b"h2c", b"TLS/1.0", b"websocket, h2c", b"", b"anything"])
async def test_the_body_is_the_body_and_no_second_request(upgrade: bytes) -> None:
    head = b"POST /a HTTP/1.1\r\n" + H2C.replace(b"h2c", upgrade)
    sent = head + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER

    assert await told(sent) == [["POST", "/a", INNER.decode()]]


async def test_however_the_bytes_are_cut() -> None:
    sent = b"POST /a HTTP/1.1\r\n" + H2C + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER
    for cut in range(1, len(sent), 7):
        assert await told(sent[:cut], sent[cut:]) == [["POST", "/a", INNER.decode()]]


async def test_chunks_are_understood_as_well() -> None:
    sent = b"POST /a HTTP/1.1\r\n" + H2C + b"Transfer-Encoding: chunked\r\n\r\n"

    assert await told(sent + b"5\r\nhello\r\n", b"3\r\n wo\r\n0\r\n\r\n") == [
        ["POST", "/a", "hello wo"]
    ]


async def test_a_get_without_a_body_is_answered() -> None:
    assert await told(b"GET /a HTTP/1.1\r\n" + H2C + b"\r\n") == [["GET", "/a", ""]]


async def test_many_on_one_connection_are_each_answered() -> None:
    sent = b"POST /a HTTP/1.1\r\n" + H2C + b"Content-Length: 2\r\n\r\nhi"

    assert await told(sent * 20) == [["POST", "/a", "hi"]] * 20


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /a HTTP/1.1\r\nHost: l\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /a HTTP/1.0\r\nHost: l\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: l\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n"
        b"Content-Length: 40\r\n\r\n",
    ],
)
async def test_a_websocket_that_cannot_begin_is_refused_at_once(sent: bytes) -> None:
    async with server(echo, ws="websockets-sansio") as connect:
        reader, writer = await connect()
        writer.write(sent)
        async with asyncio.timeout(20):
            answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"invalid_request" in answer
