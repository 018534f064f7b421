"""Presets that run elsewhere: how that fails, and what the scheduler hears of it."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from scheduler.protocol import Remote

from .asking import Exchange, chat, until
from .fakes import Received
from .remote_house import STREAM, answers, asked, closes, gateway, saying
from .remotes import RemoteConnection


async def test_who_cannot_connect_is_tried_once_more(house):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # it does not listen
        away = Remote(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        async with gateway(house, answers) as (h, remote):
            h.scheduler.remotes = [away, remote.remote()]
            exchange = await asked(h)

            assert exchange.status == 200
            assert [lease.heard_of for lease in h.scheduler.leases] == [
                ["nobody listens there"],
                [""],
            ]
            h.scheduler.remotes = [away]
            exchange = await asked(h)

    assert (exchange.status, exchange.json["error"]["code"]) == (503, "upstream_unavailable")
    assert exchange.header(b"retry-after") == b"1"
    assert b"127.0.0.1" not in exchange.body
    assert len(h.scheduler.leases) == 4
    assert h.scheduler.held == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/v1", "there is no way to it"),
        ("http://[fe80::1]/v1", "there is no way to it"),
        ("http://[::ffff:169.254.169.254]", "there is no way to it"),
        ("http://no-such-host.invalid", "the name of its host cannot be resolved"),
    ],
)
async def test_where_no_upstream_may_be_nothing_is_sent(house, url, words):
    async with gateway(house, answers) as (h, _):
        h.scheduler.remotes = [Remote(url)]
        exchange = await asked(h)

    assert exchange.json["error"]["code"] == "upstream_unavailable"
    assert h.scheduler.leases[0].heard_of == [words]


@pytest.mark.parametrize(
    "script",
    [
        closes,
        saying(b"what is this\r\n\r\n"),
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"),
        saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"),
        saying(b"HTTP/1.1 200 OK\r\nX: a\x01b\r\nContent-Length: 2\r\n\r\n{}"),
        saying(b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}"),
    ],
)
async def test_what_was_sent_and_not_answered_is_not_sent_again(house, script):
    async with gateway(house, script) as (h, remote):
        exchange = await asked(h)
        assert len(remote.received) == 1

    assert (exchange.status, exchange.json["error"]["code"]) == (502, "upstream_failed")
    [lease] = h.scheduler.leases
    assert lease.released
    assert lease.heard_of
    assert all(lease.heard_of)


async def test_a_stream_that_breaks_off_ends_with_an_error_event(house):
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with gateway(house, saying(head + b"9\r\ndata: 1\n\n\r\n")) as (h, _):
        exchange = await asked(h, chat(stream=True))

    assert exchange.body.startswith(b"data: 1\n\ndata: {")
    assert b"upstream_failed" in exchange.body
    assert b"[DONE]" not in exchange.body
    assert h.scheduler.leases[0].heard_of[0] == ""
    assert h.scheduler.leases[0].heard_of[1]


async def test_one_that_does_not_begin_to_answer_has_failed(house):
    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.until_closed()

    async with gateway(house, script, first_byte_timeout_seconds=0.1) as (h, _):
        exchange = await asked(h)

    assert (exchange.status, exchange.json["error"]["code"]) == (504, "first_byte_timeout")
    assert h.scheduler.leases[0].heard_of == ["it did not begin to answer in time"]
    assert h.scheduler.held == []


async def test_one_that_stops_in_the_middle_has_failed(house):
    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.begin("text/event-stream")
        await remote.say(b"data: 1\n\n")
        await remote.until_closed()

    async with gateway(house, script, between_tokens_timeout_seconds=0.1) as (h, _):
        exchange = await asked(h, chat(stream=True))

    assert b"answer_timeout" in exchange.body
    assert h.scheduler.leases[0].heard_of == ["", "it stopped in the middle of an answer"]


async def test_a_client_that_leaves_closes_the_connection(house):
    closed = asyncio.Event()

    async def script(received: Received, remote: RemoteConnection) -> None:
        if b'"stream"' in received.body:
            await remote.begin("text/event-stream")
            await remote.say(b"data: 1\n\n")
        await remote.until_closed()
        closed.set()

    for body, begun in ((chat(), False), (chat(stream=True), True)):
        async with gateway(house, script) as (h, remote):
            closed.clear()
            exchange = Exchange(h.app, body=body)
            await (until(lambda e=exchange: e.body) if begun else remote.arrived.wait())
            exchange.leave()
            await exchange.end()
            async with asyncio.timeout(30):
                await closed.wait()
            [lease] = h.scheduler.leases
            assert lease.released
            assert not lease.abandoned
            assert not any(lease.heard_of)


async def test_a_client_that_leaves_while_its_body_is_sent_leaves_no_file(house):
    async def script(received: Received, remote: RemoteConnection) -> None:
        raise AssertionError("the body never arrives whole")

    arrived, over = asyncio.Event(), asyncio.Event()

    async def reads_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await over.wait()
        writer.transport.abort()
        over.clear()

    server = await asyncio.start_server(reads_nothing, "127.0.0.1", limit=1024)
    port = server.sockets[0].getsockname()[1]
    async with gateway(house, script, retry_body=1 << 16) as (h, _):
        h.scheduler.remotes = [Remote(f"http://127.0.0.1:{port}")]
        exchange = Exchange(h.app, body=chat(text="x" * (32 << 20)))
        await arrived.wait()
        exchange.leave()
        await exchange.end()
        await until(lambda: h.app._room.spooled == 0)

        assert h.scheduler.held == []
    server.close()
    over.set()
    await until(lambda: not over.is_set())


async def test_a_shutdown_closes_what_is_kept_open(house):
    async with gateway(house, answers) as (h, remote):
        await asked(h)
        await h.app.drain(1.0)
        await until(lambda: not remote._tasks)


async def test_ollamas_clients_reach_a_remote_as_openais_do(house):
    async def says(received: Received, remote: RemoteConnection) -> None:
        await remote.begin("text/event-stream")
        await remote.say(STREAM)
        await remote.finish()

    body = json.dumps({"model": "far", "messages": [{"role": "user", "content": "x"}]}).encode()
    async with gateway(house, says) as (h, remote):
        exchange = await Exchange(h.app, "/api/chat", body=body).end()

    first, last = map(json.loads, exchange.body.splitlines())
    assert first["message"]["content"] == "a"
    assert (last["done"], last["prompt_eval_count"], last["eval_count"]) == (True, 7, 3)
    assert last["total_duration"] >= last["eval_duration"] >= 0
    assert remote.received[0].line == "POST /v1/chat/completions HTTP/1.1"
