"""Presets that run elsewhere: what of an answer reaches the client."""

from __future__ import annotations

import asyncio

import pytest

from .asking import Exchange, chat, until
from .fakes import Received
from .remote_house import ANSWER, STREAM, answers, asked, gateway, streams
from .remotes import RemoteConnection


async def test_a_stream_is_passed_on_byte_by_byte_and_its_tokens_are_counted(house):
    async with gateway(house, streams) as (h, _):
        exchange = await asked(h, chat(stream=True))
        [lease] = h.scheduler.leases

    assert exchange.body == STREAM
    assert exchange.ended_well
    assert exchange.header(b"x-accel-buffering") == b"no"
    assert lease.tokens == (7, None, 3)
    assert lease.heard_of == [""]


async def test_tokens_are_not_held_back(house):
    go_on = asyncio.Event()

    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.begin("text/event-stream")
        await remote.say(b"data: 1\n\n")
        await go_on.wait()
        await remote.say(b"data: 2\n\n")
        await remote.finish()

    async with gateway(house, script) as (h, _):
        exchange = Exchange(h.app, body=chat(stream=True))
        await until(lambda: exchange.body == b"data: 1\n\n")
        go_on.set()
        await exchange.end()

    assert exchange.body == b"data: 1\n\ndata: 2\n\n"


async def test_its_cookies_and_what_concerns_its_site_or_account_stay_here(house):
    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.answer(
            ANSWER,
            "Set-Cookie: a=1",
            "Strict-Transport-Security: max-age=1",
            'Alt-Svc: h3=":443"',
            "OpenAI-Organization: org-ours",
            "Access-Control-Allow-Origin: *",
            "X-Request-Id: theirs",
            "X-RateLimit-Remaining-Requests: 9",
        )

    async with gateway(house, script) as (h, remote):
        exchange = await asked(h, headers=[(b"x-request-id", b"mine")])
        again = await asked(h)

    names = {name for name, _ in exchange.headers}
    assert names == {
        b"content-type",
        b"content-length",
        b"x-ratelimit-remaining-requests",
        b"x-content-type-options",
        b"content-security-policy",
        b"x-request-id",
    }
    assert exchange.header(b"x-request-id") == b"mine"
    assert again.status == 200
    assert remote.received[1].header("cookie") is None


async def test_connections_are_used_again(house):
    async with gateway(house, answers) as (h, remote):
        for _ in range(3):
            await asked(h)
        await asked(h, chat(stream=True))

    assert (len(remote.received), remote.connections) == (4, 1)


async def test_what_it_compressed_unasked_is_passed_on_as_it_is(house):
    packed = b"\x1f\x8b not really"

    async def script(received: Received, remote: RemoteConnection) -> None:
        assert received.header("accept-encoding") is None
        await remote.answer(packed, "Content-Encoding: gzip")

    async with gateway(house, script) as (h, _):
        exchange = await asked(h, headers=[(b"accept-encoding", b"gzip")])

    assert exchange.body == packed
    assert exchange.header(b"content-encoding") == b"gzip"


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        ("200 OK", (), [""]),
        ("400 Bad Request", (), [""]),
        ("429 Too Many Requests", ("Retry-After: 7",), [""]),
        ("503 Service Unavailable", ("Retry-After: 7",), []),
        ("501 Not Implemented", (), [""]),
        ("500 Internal Server Error", (), ["it answered with status 500"]),
        ("503 Service Unavailable", (), ["it answered with status 503"]),
    ],
)
async def test_its_own_errors_are_answers_and_the_scheduler_hears_which_are_failures(
    house, status, headers, told
):
    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.answer(b'{"error":{}}', *headers, status=status)

    async with gateway(house, script) as (h, remote):
        exchange = await asked(h)

    assert exchange.status == int(status[:3])
    assert exchange.body == b'{"error":{}}'
    assert exchange.header(b"retry-after") == (b"7" if headers else None)
    assert h.scheduler.leases[0].heard_of == told
    assert len(remote.received) == 1


@pytest.mark.parametrize("status", ["401 Unauthorized", "302 Found", "407 Proxy"])
async def test_what_speaks_to_the_gateway_does_not_reach_the_client(house, status):
    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.answer(b"key sk-remote is wrong", "Location: http://10.0.0.1/", status=status)

    async with gateway(house, script) as (h, remote):
        exchange = await asked(h)

    assert (exchange.status, exchange.json["error"]["code"]) == (502, "upstream_failed")
    assert b"sk-remote" not in exchange.body
    assert exchange.header(b"location") is None
    assert len(remote.received) == 1
    assert h.scheduler.held == []
