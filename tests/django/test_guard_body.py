"""How much body the guard lets in, and how slowly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.watch import AT_HAND
from routerproj.guard import Guard, GuardConfig
from tests.django.asgi_exchange import Exchange, scope

MAX_BODY = 100


class Reader:
    """An application that reads the whole body, then says how much it was."""

    def __init__(self) -> None:
        self.read = 0
        self.left = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left = True
                return
            self.read += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(self.read).encode()})


async def through(
    application: Any, exchange: Exchange, *headers: tuple[bytes, bytes], deadline: float = 30.0
) -> None:
    config = GuardConfig(max_body=MAX_BODY, body_timeout_seconds=deadline)
    guard = Guard(application, config, lambda path: True)
    asked = scope(headers=[(b"host", b"localhost"), *headers], method="POST")
    await guard(asked, exchange.receive, exchange.send)


async def test_a_declared_length_over_the_limit_is_refused_before_a_byte_is_read() -> None:
    exchange = Exchange(b"x" * 101)

    await through(Reader(), exchange, (b"content-length", b"101"))

    assert (exchange.status, exchange.code) == (413, "body_too_large")
    assert exchange.read == 0


async def test_a_body_without_a_length_is_stopped_at_the_limit() -> None:
    reader = Reader()
    exchange = Exchange(*[b"x" * 40] * 1000)

    await through(reader, exchange, (b"transfer-encoding", b"chunked"))

    assert (exchange.status, exchange.code) == (413, "body_too_large")
    assert exchange.read == 3
    assert (reader.read, reader.left) == (80, True)


@pytest.mark.parametrize("parts", [[b"x" * 100], [b"x" * 50, b"x" * 50], [b""]])
async def test_a_body_within_the_limit_comes_through(parts: list[bytes]) -> None:
    exchange = Exchange(*parts)

    await through(Reader(), exchange)

    assert (exchange.status, exchange.body) == (200, str(len(b"".join(parts))).encode())


async def test_each_part_reaches_the_application_before_the_next_has_come() -> None:
    first = asyncio.Event()

    async def receive() -> Any:
        if not first.is_set():
            return {"type": "http.request", "body": b"x", "more_body": True}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"x"
        first.set()
        await receive()

    config = GuardConfig(max_body=MAX_BODY, body_timeout_seconds=30.0)
    exchange = Exchange()
    await Guard(application, config, lambda path: True)(scope(), receive, exchange.send)

    assert first.is_set()


async def test_a_body_that_stalls_is_refused_at_the_deadline() -> None:
    reader = Reader()

    class Stalls(Exchange):
        async def receive(self) -> Any:
            if self.read:
                await asyncio.Event().wait()
            return await super().receive()

    exchange = Stalls(b"x", b"y")
    await through(reader, exchange, deadline=0.05)

    assert (exchange.status, exchange.code) == (408, "request_timeout")
    assert reader.left


async def test_a_body_whose_beginning_is_at_hand_has_a_deadline_for_the_rest() -> None:
    class Stalls(Exchange):
        async def receive(self) -> Any:
            if self.read:
                await asyncio.Event().wait()
            return await super().receive()

    exchange = Stalls(b"x", b"y")
    asked = scope(headers=[(b"host", b"localhost"), (b"content-length", b"2")], method="POST")
    asked["extensions"] = {AT_HAND: lambda: exchange.read == 0}
    config = GuardConfig(max_body=MAX_BODY, body_timeout_seconds=0.01)
    guard = Guard(Reader(), config, lambda path: True)

    await guard(asked, exchange.receive, exchange.send)

    assert (exchange.status, exchange.code) == (408, "request_timeout")


async def test_waiting_for_a_client_to_leave_has_no_deadline() -> None:
    async def waits(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    exchange = Exchange(b"x")
    await through(waits, exchange, deadline=0.05)

    assert exchange.status == 200


async def test_time_in_the_application_is_not_the_clients() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await asyncio.sleep(0.2)
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    exchange = Exchange(b"x", b"y")
    await through(slow, exchange, deadline=0.1)

    assert exchange.status == 200


async def test_an_application_that_goes_on_after_a_refusal_cannot_answer_twice() -> None:
    async def stubborn(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})
        raise RuntimeError("lost my client")

    exchange = Exchange(b"x" * 101)
    await through(stubborn, exchange)

    assert exchange.status == 413
    assert b"fine" not in exchange.body


@pytest.mark.parametrize(("size", "status"), [(250, 200), (301, 413)])
async def test_a_model_file_that_is_handed_over_has_a_limit_of_its_own(
    size: int, status: int
) -> None:
    config = GuardConfig(max_body=MAX_BODY, body_timeout_seconds=30.0, max_upload=300)
    guard = Guard(Reader(), config, lambda path: True)
    exchange = Exchange(*[b"x" * 50] * (size // 50), b"x" * (size % 50))

    await guard(scope(b"/api/blobs/sha256:0", method="POST"), exchange.receive, exchange.send)

    assert exchange.status == status
