"""What our uvicorn protocol stops before the application is called, seen on raw sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from proxy.watch import CLIENT_GONE
from tests.django.uvicorn_connections import Connect
from tests.django.uvicorn_connections import server as serving

OK = b"HTTP/1.1 200 OK"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"hi"})


async def reads_body_then_hello(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await hello(scope, receive, send)


def server(application: Any = hello, **changed: Any) -> AbstractAsyncContextManager[Connect]:
    return serving(application, **changed)


async def answer_to(connect: Connect, sent: bytes) -> bytes:
    """Everything up to the end of the connection."""
    reader, writer = await connect()
    writer.write(sent)
    return await reader.read()


def status_and_code(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


async def test_a_plain_request_is_answered() -> None:
    async with server() as connect:
        reader, writer = await connect()
        writer.write(GET)

        assert (await reader.readline()).startswith(OK)


async def test_whole_headers_over_the_limit_get_431() -> None:
    padding = b"".join(b"X-%d: %s\r\n" % (n, b"x" * 500) for n in range(5))
    async with server() as connect:
        answer = await answer_to(
            connect, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + padding + b"\r\n"
        )

    assert status_and_code(answer) == (431, "headers_too_large")


async def test_headers_that_never_end_get_431_at_the_limit() -> None:
    async with server() as connect:
        answer = await answer_to(connect, b"GET / HTTP/1.1\r\nX-Endless: " + b"x" * 5000)

    assert status_and_code(answer) == (431, "headers_too_large")


async def test_more_than_a_hundred_fields_get_431() -> None:
    fields = b"".join(b"A%d: b\r\n" % n for n in range(120))
    async with server() as connect:
        answer = await answer_to(connect, b"GET / HTTP/1.1\r\n" + fields + b"\r\n")

    assert status_and_code(answer) == (431, "headers_too_large")


async def test_an_endless_target_gets_431() -> None:
    async with server() as connect:
        answer = await answer_to(connect, b"GET /" + b"x" * 5000)

    assert status_and_code(answer) == (431, "headers_too_large")


async def test_a_body_larger_than_the_header_limit_is_no_header() -> None:
    request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000
    async with server(reads_body_then_hello) as connect:
        reader, writer = await connect()
        writer.write(request)

        assert (await reader.readline()).startswith(OK)


async def test_a_second_request_on_the_connection_has_a_limit_of_its_own() -> None:
    padded = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1500 + b"\r\n\r\n"
    async with server() as connect:
        reader, writer = await connect()
        for _ in range(3):
            writer.write(padded)
            assert (await reader.readline()).startswith(OK)
            await reader.readuntil(b"\r\n\r\nhi")


async def test_dripping_headers_get_408_at_the_deadline_whatever_comes() -> None:
    async with server(header_timeout_seconds=0.3) as connect:
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\n")
        dripping = asyncio.create_task(_drip(writer))
        answer = await reader.read()
        dripping.cancel()

    assert status_and_code(answer) == (408, "request_timeout")


async def test_a_connection_that_says_nothing_is_closed_without_a_word() -> None:
    async with server(header_timeout_seconds=0.1) as connect:
        assert await answer_to(connect, b"") == b""


async def test_a_slow_answer_is_not_a_slow_head() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.4)
        await hello(scope, receive, send)

    async with server(slow, header_timeout_seconds=0.1) as connect:
        reader, writer = await connect()
        writer.write(GET)

        assert (await reader.readline()).startswith(OK)


async def test_a_slow_body_is_not_a_slow_head() -> None:
    async with server(reads_body_then_hello, header_timeout_seconds=0.1) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
        await asyncio.sleep(0.3)
        writer.write(b"xx")

        assert (await reader.readline()).startswith(OK)


async def test_half_a_next_request_after_an_answer_meets_the_deadline_too() -> None:
    async with server(header_timeout_seconds=0.2) as connect:
        reader, writer = await connect()
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\nhi")
        writer.write(b"GET / HT")

        assert status_and_code(await reader.read()) == (408, "request_timeout")


async def test_an_idle_connection_is_closed_after_the_keep_alive_time() -> None:
    async with server(keep_alive_seconds=0.1) as connect:
        assert (await answer_to(connect, GET)).endswith(b"\r\n\r\nhi")


async def test_a_body_that_nobody_reads_may_not_drip_for_ever_after_the_answer() -> None:
    async with server(header_timeout_seconds=0.3) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000\r\n\r\n")
        await reader.readuntil(b"\r\n\r\nhi")
        dripping = asyncio.create_task(_drip(writer))

        assert await reader.read() == b""
        dripping.cancel()


async def test_a_body_that_comes_after_the_answer_spoils_nothing() -> None:
    async with server(header_timeout_seconds=0.3, keep_alive_seconds=0.6) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n")
        await reader.readuntil(b"\r\n\r\nhi")
        writer.write(b"late")
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\nhi")

        assert await reader.read() == b""


async def test_one_connection_too_many_gets_503_and_when_to_come_back() -> None:
    async with server(max_connections=2) as connect:
        for _ in range(2):
            reader, writer = await connect()
            writer.write(GET)
            await reader.readline()

        answer = await answer_to(connect, GET)

    assert status_and_code(answer) == (503, "too_many_connections")
    assert b"retry-after: 1" in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"GET http://evil.example/admin/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET //evil.example/admin/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: l\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: l\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: l\r\nContent-Length: +5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
async def test_what_is_no_plain_request_gets_400_in_our_shape(sent: bytes) -> None:
    async with server(reads_body_then_hello) as connect:
        answer = await answer_to(connect, sent)

    assert status_and_code(answer) == (400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n",
        b"5\r\nhello",  # more follows than was announced
        b"0\r\nContent-Length: 5\r\n\r\n",
        b"ffffffffffffffffff\r\n",
    ],
)
async def test_a_body_that_cannot_be_read_gets_400_while_nothing_was_answered(body: bytes) -> None:
    head = b"POST / HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with server(reads_body_then_hello) as connect:
        answer = await answer_to(connect, head + body + b"broken\r\n")

    assert status_and_code(answer) == (400, "invalid_request")


async def test_trailers_never_become_headers() -> None:
    seen = []

    async def looks(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        seen.extend(name for name, _ in scope["headers"])
        await hello(scope, receive, send)

    head = b"POST / HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with server(looks) as connect:
        reader, writer = await connect()
        writer.write(head + b"1\r\nx\r\n0\r\nX-Api-Key: smuggled\r\n\r\n")
        await reader.readuntil(b"\r\n\r\nhi")

    assert seen == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize("endless", [b"0\r\nX: ", b"5;", b"0\r\n"])
async def test_what_frames_a_body_is_no_larger_than_headers_may_be(endless: bytes) -> None:
    head = b"POST / HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked\r\n\r\n"
    padding = b"A: b\r\n" if endless == b"0\r\n" else b"xxxxxx"
    async with server(reads_body_then_hello) as connect:
        reader, writer = await connect()
        writer.write(head)
        for part in (endless, *[padding * 50] * 20):
            writer.write(part)
            await asyncio.sleep(0.001)
        answer = await reader.read()

    assert status_and_code(answer) == (431, "headers_too_large")


async def test_a_refused_client_that_still_sends_can_read_why() -> None:
    async def too_large(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"3"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": b"big"})

    async with server(too_large) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(30):
            writer.write(b"x" * 100_000)
            await writer.drain()

        assert (await reader.read()).startswith(b"HTTP/1.1 413 ")


async def _drip(writer: asyncio.StreamWriter) -> None:
    number = 0
    while True:
        await asyncio.sleep(0.02)
        number += 1
        writer.write(b"X-%d: y\r\n" % number)


async def test_an_application_can_be_told_that_the_client_left_without_waiting_for_it():
    entered, told = asyncio.Event(), asyncio.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][CLIENT_GONE].add_done_callback(lambda _: told.set())
        entered.set()
        await told.wait()

    async with server(waits) as connect:
        _, writer = await connect()
        writer.write(GET)
        await entered.wait()
        assert not told.is_set()
        writer.close()
        async with asyncio.timeout(30):
            await told.wait()
