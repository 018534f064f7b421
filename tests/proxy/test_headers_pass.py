from __future__ import annotations

import re

import pytest

from proxy.callers import Caller
from proxy.headers import RawHeaders

from .asking import Exchange, chat
from .fakes import Connection, Received


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


async def test_the_clients_secrets_and_hop_by_hop_headers_stay_with_the_gateway(house):
    async with house(answers) as h:
        await Exchange(
            h.app,
            body=chat(),
            headers=[
                (b"host", b"gateway.example"),
                (b"authorization", b"Bearer secret"),
                (b"x-api-key", b"secret"),
                (b"api-key", b"secret"),
                (b"x-goog-api-key", b"secret"),
                (b"proxy-authorization", b"Basic secret"),
                (b"cookie", b"session=secret"),
                (b"accept-encoding", b"gzip"),
                (b"connection", b"keep-alive, X-Hop"),
                (b"x-hop", b"1"),
                (b"te", b"trailers"),
                (b"upgrade", b"h2c"),
                (b"expect", b"100-continue"),
                (b"transfer-encoding", b"chunked"),
                (b"x-conversation-id", b"another-tenant"),
                (b"content-type", b"application/json"),
                (b"user-agent", b"J\xc3\xbcrgen/1"),
            ],
        ).end()

    received = h.child.received[0]
    assert "secret" not in str(received.headers)
    assert received.header("host") == "localhost"
    assert received.header("content-type") == "application/json"
    assert received.header("user-agent") == "Jürgen/1"
    assert received.header("content-length") == str(len(chat()))
    names = {name for name, _ in received.headers}
    assert names == {
        "host", "content-type", "user-agent", "content-length", "x-request-id", "connection",
    }  # fmt: skip
    assert received.header("connection") == "close"


async def test_what_a_child_says_of_its_connection_and_itself_stays_there(house):
    async def script(received: Received, child: Connection) -> None:
        await child.begin(
            "text/event-stream",
            "Server: llama.cpp",
            "Keep-Alive: timeout=5, max=100",
            "Set-Cookie: a=b",
            "Access-Control-Allow-Origin: *",
            "Connection: close, X-Hop",
            "X-Hop: 1",
            "X-Kept: yes",
        )
        await child.say(b"data: {}\n\n")
        await child.finish()

    async with house(script) as h:
        exchange = await Exchange(
            h.app, body=chat(stream=True), headers=[(b"x-request-id", b"mine-1")]
        ).end()

    assert dict(exchange.headers) == {
        b"content-type": b"text/event-stream",
        b"x-kept": b"yes",
        b"x-accel-buffering": b"no",
        b"x-content-type-options": b"nosniff",
        b"content-security-policy": b"sandbox; default-src 'none'",
        b"x-request-id": b"mine-1",
    }


@pytest.mark.parametrize("value", [b"a\r\nx-evil: 1", b"a\nb", b"a\0b"])
async def test_a_header_that_could_be_read_as_two_is_refused(house, value):
    async with house(answers) as h:
        exchange = await Exchange(h.app, body=chat(), headers=[(b"x-odd", value)]).end()

    assert exchange.status == 400
    assert exchange.json["error"]["code"] == "invalid_request"
    assert not h.scheduler.asked


@pytest.mark.parametrize("given", [b"", b"x" * 200, b"two words", b"\xff"])
async def test_a_request_id_that_is_not_sane_is_replaced(house, given):
    async with house(answers) as h:
        exchange = await Exchange(h.app, body=chat(), headers=[(b"x-request-id", given)]).end()

    chosen = exchange.header(b"x-request-id")
    assert chosen is not None
    assert chosen.startswith(b"req-")
    assert h.child.received[0].header("x-request-id") == chosen.decode()


async def test_a_header_that_came_twice_passes_twice_and_a_query_as_it_is(house):
    async with house(answers) as h:
        exchange = await Exchange(
            h.app,
            body=chat(),
            query=b"a=%20&b=\xc3\xbc",
            headers=[(b"accept", b"a/b"), (b"x-other", b"1"), (b"accept", b"c/d")],
        ).end()

    assert exchange.status == 200
    received = h.child.received[0]
    assert received.line == "POST /v1/chat/completions?a=%20&b=ü HTTP/1.1"
    assert [value for name, value in received.headers if name == "accept"] == ["a/b", "c/d"]


@pytest.mark.parametrize("query", [b"a b", b"a\r\nx-evil: 1", b"a\0", b"a\x7f"])
async def test_a_query_that_would_not_stay_on_its_line_is_refused(house, query):
    async with house(answers) as h:
        exchange = await Exchange(h.app, body=chat(), query=query).end()

    assert exchange.status == 400
    assert exchange.json["error"]["code"] == "invalid_request"
    assert not h.scheduler.asked
    assert not h.child.received


async def refusal(house, **asked) -> Exchange:
    async with house(answers) as h:
        exchange = await Exchange(h.app, body=chat(), **asked).end()
        assert not h.child.received
    return exchange


@pytest.mark.parametrize(
    "asked",
    [
        {"headers": [(b"x-long", b"x" * 8000)]},
        {"headers": [(b"x-%d" % number, b"") for number in range(97)]},
        {"query": b"q=" + b"x" * 8000},
    ],
)
async def test_headers_that_a_child_would_not_take_are_refused_with_their_reason(house, asked):
    """It would answer with an empty 400."""
    exchange = await refusal(house, **asked)

    assert exchange.status == 431
    assert exchange.json["error"]["code"] == "headers_too_large"


async def test_a_long_header_that_stays_with_the_gateway_is_no_reason(house):
    async with house(answers) as h:
        headers = [(b"cookie", b"x" * 9000), (b"x-long", b"x" * 7000)]
        exchange = await Exchange(h.app, body=chat(), headers=headers).end()

    assert exchange.status == 200
    assert h.child.received[0].header("x-long") == "x" * 7000


async def test_the_scheduler_knows_a_request_by_the_id_that_its_client_got(house):
    async with house(answers) as h:
        chosen = await Exchange(h.app, body=chat(), headers=[(b"x-request-id", b"mine-1")]).end()
        given = await Exchange(h.app, body=chat()).end()

    ids = [exchange.header(b"x-request-id").decode() for exchange in (chosen, given)]
    assert [asked.request for asked in h.scheduler.asked] == ids
    assert ids[0] == "mine-1"


class OneCaller:
    """In place of the key ring: whoever asks is this one."""

    def __init__(self, *, told_times: bool) -> None:
        self._caller = Caller("builders", "aaaaaaaa", told_times=told_times)

    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: RawHeaders, by_session: object = None) -> Caller:
        return self._caller

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("told_times", [True, False])
async def test_only_the_playgrounds_answers_say_how_long_they_waited(house, told_times):
    async with house(answers, keys=OneCaller(told_times=told_times)) as h:
        exchange = await Exchange(h.app, body=chat()).end()

    said = dict(exchange.headers).get(b"server-timing", b"").decode()
    assert bool(re.fullmatch(r"queue;dur=[0-9.]+, load;dur=[0-9.]+", said)) is told_times
