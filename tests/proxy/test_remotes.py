"""Presets that run elsewhere: what their server is sent, what of its answer reaches the client, and
what the scheduler hears of it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from models_registry import kept_secrets
from scheduler.protocol import Filters, Remote

from .asking import Exchange, chat, until
from .fakes import Received
from .remotes import FakeRemote, RemoteConnection, fake_remote

ANSWER = b'{"model":"theirs-2026","usage":{"prompt_tokens":7,"completion_tokens":3}}'
STREAM = (
    b'data: {"choices":[{"delta":{"content":"a"}}]}\r\n\r\n'
    b": comment\n\n"
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
    b"data: [DONE]\n\n"
)


async def answers(received: Received, remote: RemoteConnection) -> None:
    await remote.answer(ANSWER)


async def streams(received: Received, remote: RemoteConnection) -> None:
    await remote.begin("text/event-stream")
    for start in range(0, len(STREAM), 7):
        await remote.say(STREAM[start : start + 7])
    await remote.finish()


async def closes(received: Received, remote: RemoteConnection) -> None:
    remote.cut()


def saying(raw: bytes) -> Any:
    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.raw(raw)
        remote.cut()

    return script


@asynccontextmanager
async def gateway(
    house: Any, *scripts: Any, path: str = "", key: str = "", **settings: Any
) -> AsyncIterator[tuple[Any, FakeRemote]]:
    """A gateway whose presets run on a remote that follows the script."""
    [script] = scripts
    async with fake_remote(script) as remote, house(answers, **settings) as h:
        h.scheduler.remotes = [remote.remote(path=path, key=key)]
        h.scheduler.model = "theirs"
        yield h, remote


async def asked(h: Any, body: bytes | None = None, **request: Any) -> Exchange:
    return await Exchange(h.app, body=chat() if body is None else body, **request).end()


# What it is sent --------------------------------------------------------------------------------


async def test_it_gets_its_own_name_of_the_model_and_the_rest_as_it_came(house):
    body = b'{ "model":"ours", "n": 1.50, "messages": [ ] }'
    async with gateway(house, answers) as (h, remote):
        exchange = await asked(h, body)

    assert (exchange.status, exchange.body) == (200, ANSWER)
    [received] = remote.received
    assert json.loads(received.body) == {"model": "theirs", "n": 1.5, "messages": []}
    assert b"1.50" in received.body
    assert exchange.header(b"x-corral-filters") is None


async def test_filters_of_the_preset_count_there_too(house):
    async with gateway(house, answers) as (h, remote):
        h.scheduler.filters = Filters(["user"], {}, {"temperature": 0})
        exchange = await asked(h, chat(user="me"))

    assert json.loads(remote.received[0].body) == {
        "model": "theirs",
        "messages": [],
        "temperature": 0,
    }
    assert exchange.header(b"x-corral-filters") == b"stripped=user; set=temperature"


async def test_the_clients_key_and_all_that_tells_of_it_stay_here(house, tmp_path, settings):
    settings.CORRAL_VAR = tmp_path
    reference = kept_secrets.keep("sk-remote")
    sent = [
        (b"authorization", b"Bearer ck_client"),
        (b"x-api-key", b"ck_client"),
        (b"cookie", b"session=1"),
        (b"user-agent", b"someone/1"),
        (b"x-forwarded-for", b"10.1.2.3"),
        (b"referer", b"http://intranet/"),
        (b"content-type", b"application/json"),
        (b"x-request-id", b"mine-1"),
        (b"openai-beta", b"assistants=v2"),
        (b"connection", b"keep-alive, x-secret"),
        (b"x-secret", b"s"),
    ]
    async with gateway(house, answers, key=reference) as (h, remote):
        await asked(h, headers=sent)

    headers = dict(remote.received[0].headers)
    assert headers.pop("host") == f"localhost:{remote.port}"
    assert headers.pop("via").startswith("1.1 corral-")
    headers.pop("content-length")
    assert headers == {
        "authorization": "Bearer sk-remote",
        "content-type": "application/json",
        "openai-beta": "assistants=v2",
        "user-agent": "corral",
        "x-request-id": "mine-1",
    }


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/", "/chat/completions", "/v1/chat/completions"),
        ("/v1beta/openai", "/v1/embeddings", "/v1beta/openai/embeddings"),
        ("/v1", "/tokenize", "/tokenize"),
        ("/llm/v1", "/v1/rerank", "/llm/v1/rerank"),
    ],
)
async def test_its_address_is_made_as_clients_of_openai_make_it(house, base, path, target):
    async with gateway(house, answers, path=base) as (h, remote):
        exchange = await asked(h, path=path, query=b"autoload=1&api-version=3")

    assert exchange.status == 200
    assert remote.received[0].line == f"POST {target}?api-version=3 HTTP/1.1"


async def test_a_form_goes_on_with_another_name_and_every_other_byte_as_it_was(house):
    form = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        b"RIFF\r\n--\x00\xff\r\n"
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nours\r\n'
        b'--b\r\nContent-Disposition: form-data; name="language"\r\n\r\nde\r\n--b--\r\n'
    )
    told = [(b"content-type", b"multipart/form-data; boundary=b")]
    for settings in ({}, {"retry_body": 16}):
        async with gateway(house, answers, **settings) as (h, remote):
            exchange = await asked(h, form, path="/v1/audio/transcriptions", headers=told)

        assert exchange.status == 200
        assert remote.received[0].body == form.replace(b"ours", b"theirs")


async def test_a_large_body_is_sent_from_its_file_and_nothing_is_left_of_it(house):
    text = "x" * (3 << 20)
    async with gateway(house, answers, retry_body=1 << 16) as (h, remote):
        exchange = await asked(h, chat(text=text))
        room = h.app._room

        assert exchange.status == 200
        assert json.loads(remote.received[0].body)["text"] == text
        assert (room.held, room.spooled) == (0, 0)


async def test_its_props_can_be_looked_at_and_nothing_more_of_it(house):
    async with gateway(house, answers) as (h, remote):
        props = await asked(h, b"", method="GET", path="/props", query=b"model=ours")
        slots = await asked(h, b"", method="GET", path="/slots", query=b"model=ours")

    assert props.status == 200
    assert [received.line for received in remote.received] == ["GET /props?model=theirs HTTP/1.1"]
    assert (slots.status, slots.json["error"]["code"]) == (501, "not_supported")
    assert h.scheduler.held == []


async def test_a_request_that_has_come_back_is_refused(house):
    async with gateway(house, answers) as (h, remote):
        await asked(h)
        via = remote.received[0].header("via").encode()
        exchange = await asked(h, headers=[(b"via", b"1.0 other, " + via)])

    assert (exchange.status, exchange.json["error"]["code"]) == (508, "request_loops")
    assert len(remote.received) == 1


async def test_a_request_that_came_through_another_gateway_is_passed_on_with_its_way(house):
    async with gateway(house, answers) as (h, remote):
        await asked(h, headers=[(b"via", b"1.1 corral-other")])

    assert remote.received[0].header("via").startswith("1.1 corral-other, 1.1 corral-")


# What reaches the client --------------------------------------------------------------------------


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


# How it fails ---------------------------------------------------------------------------------


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
