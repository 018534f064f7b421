"""Children and clients that keep to no rule, each under both servers: everyone is told what is
wrong, nothing is taken for whole that is not, and the next request is served."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator

import pytest

from tests.process.carrying import Answer, Carrier, carrier, head
from tests.proxy.asking import chat
from tests.proxy.fakes import Connection, Received

pytestmark = pytest.mark.slow

LIMITS = {
    "CORRAL_FIRST_BYTE_TIMEOUT": "0.5",
    "CORRAL_BETWEEN_TOKENS_TIMEOUT": "0.5",
    "CORRAL_BODY_TIMEOUT": "0.5",
    "CORRAL_SLOW_READER_TIMEOUT": "1",
}
GARBAGE = bytes(range(256)) * 40
EVENT = b'data: {"n":1}\n\n'


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Carrier]:
    with carrier(request.param, tmp_path_factory.mktemp("bad"), **LIMITS) as running:
        yield running


@pytest.fixture(autouse=True)
async def _serves_the_next(gateway: Carrier) -> None:
    """Also after the test before."""
    async with gateway.childs(answers), gateway.connected() as client:
        await client.ask(chat())
        assert (await client.answer()).body == b"{}"


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


async def answer_of(gateway: Carrier, script, body: bytes = chat(), *headers: bytes) -> Answer:
    async with gateway.childs(script), gateway.connected() as client:
        await client.ask(body, *headers)
        return await client.answer()


def code_of(answer: Answer) -> str:
    return json.loads(answer.body)["error"]["code"]


# Children --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        GARBAGE,
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Filler: x\r\n" * 20_000,
    ],
    ids=["closes", "bytes", "ssh", "two lengths", "too short", "no chunk", "endless head"],
)
async def test_what_is_no_answer_is_said_to_be_none(gateway: Carrier, sent: bytes) -> None:
    async def speaks(received: Received, child: Connection) -> None:
        await child.raw(sent)

    answer = await answer_of(gateway, speaks)

    assert (answer.status, answer.whole) == (502, True)
    assert code_of(answer) == "model_died"


@pytest.mark.parametrize("begun", [False, True], ids=["nothing", "a head"])
async def test_a_child_that_never_answers_is_given_up(gateway: Carrier, begun: bool) -> None:
    async def is_silent(received: Received, child: Connection) -> None:
        if begun:
            await child.begin("text/event-stream")
        await child.until_closed()

    answer = await answer_of(gateway, is_silent)

    assert answer.status == 504
    assert code_of(answer) == "first_byte_timeout"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (b"9\r\nfour", "model_died"),
        (b"not a chunk\r\n", "model_died"),
        (GARBAGE, "model_died"),
        (None, "answer_timeout"),
    ],
    ids=["in a chunk", "no chunk", "bytes", "silence"],
)
async def test_a_stream_that_breaks_off_ends_with_an_error_event(
    gateway: Carrier, last: bytes | None, code: str
) -> None:
    async def breaks_off(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(EVENT)
        if last is None:
            await child.until_closed()
        else:
            await child.raw(last)

    answer = await answer_of(gateway, breaks_off, chat(stream=True))

    assert answer.body.startswith(EVENT)
    told = json.loads(answer.body.removeprefix(EVENT).removeprefix(b"data: "))
    assert told["error"]["code"] == code
    assert b"[DONE]" not in answer.body


async def test_a_compressed_stream_that_breaks_off_is_cut_with_nothing_said_in_it(
    gateway: Carrier,
) -> None:
    packed = gzip.compress(EVENT * 100)

    async def breaks_off(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream", "Content-Encoding: gzip")
        await child.say(packed)
        await child.raw(b"9\r\nfour")

    answer = await answer_of(gateway, breaks_off, chat(stream=True))

    assert answer.body.startswith(packed)
    assert answer.body.removeprefix(packed) in (b"", b"four")
    assert not answer.whole


@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream"])
async def test_a_whole_answer_that_breaks_off_is_not_whole(gateway: Carrier, kind: str) -> None:
    async def breaks_off(received: Received, child: Connection) -> None:
        await child.begin(kind)
        await child.say(b"[" + b"1," * 100_000)
        await child.raw(b"9\r\nfour")

    answer = await answer_of(gateway, breaks_off)

    assert answer.status == 200
    assert not answer.whole


async def test_what_is_no_utf_8_passes_as_it_is(gateway: Carrier) -> None:
    async def speaks(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(b"data: " + GARBAGE + b"\n\n")
        await child.finish()

    answer = await answer_of(gateway, speaks, chat(stream=True))

    assert answer.body == b"data: " + GARBAGE + b"\n\n"


async def test_an_event_without_an_end_passes_as_it_is(gateway: Carrier) -> None:
    async def speaks(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        for _ in range(40):
            await child.say(b"x" * 50_000)
        await child.finish()

    answer = await answer_of(gateway, speaks, chat(stream=True))

    assert answer.body == b"x" * 2_000_000


# Clients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (chat()[:-3], 400, "invalid_json"),
        (chat().replace(b"[]", b'"\xff\xfe"'), 400, "invalid_json"),
        (b'{"model":"a","model":"tiny"}', 400, "invalid_request"),
        (chat("x" * (5 << 20)), 404, "model_not_found"),
        (b"\x00" * 1000, 400, "invalid_json"),
        (b'{"model":"tiny","x":' + b"[" * 500_000, 400, "invalid_json"),
    ],
    ids=["cut", "no UTF-8", "two models", "5 MB of a name", "zeros", "deep"],
)
async def test_a_bad_body_is_refused_with_its_reason(
    gateway: Carrier, body: bytes, status: int, code: str
) -> None:
    async with gateway.childs(answers) as child, gateway.connected() as client:
        await client.ask(body)
        answer = await client.answer()

    assert (answer.status, code_of(answer)) == (status, code)
    assert len(answer.body) < 1000
    assert not child.received


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"application/xml; charset=utf-16", b"", "é".encode()]
)
async def test_json_is_taken_for_json_whatever_it_is_called(gateway: Carrier, kind: bytes) -> None:
    """As llama-server does."""
    async with gateway.childs(answers) as child, gateway.connected() as client:
        body = chat()
        lines = (b"POST /v1/chat/completions HTTP/1.1", b"host: l", b"content-type: " + kind)
        await client.send(b"\r\n".join([*lines, b"content-length: %d" % len(body), b"", body]))
        answer = await client.answer()

    assert answer.status == 200
    assert child.received[0].body == body


async def test_a_form_that_is_none_is_refused(gateway: Carrier) -> None:
    async with gateway.childs(answers), gateway.connected() as client:
        lines = (b"POST /v1/audio/transcriptions HTTP/1.1", b"host: l")
        kind = b"content-type: multipart/form-data; boundary=x"
        await client.send(b"\r\n".join([*lines, kind, b"content-length: 9", b"", b"--y\r\n\r\nzz"]))
        answer = await client.answer()

    assert answer.status == 400


async def test_parameters_that_came_twice_pass_as_they_are(gateway: Carrier) -> None:
    """Only the model's name decides here; the rest is the child's to judge."""
    body = b'{"model":"tiny","n":1,"n":2,"messages":[]}'
    async with gateway.childs(answers) as child, gateway.connected() as client:
        await client.ask(body)
        assert (await client.answer()).status == 200

    assert child.received[0].body == body


async def test_two_ways_to_end_a_body_are_refused(gateway: Carrier) -> None:
    async with gateway.childs(answers) as child, gateway.connected() as client:
        lengths = (b"content-length: 4", b"transfer-encoding: chunked")
        await client.send(head("/v1/chat/completions", *lengths), b"0\r\n\r\n")
        answer = await client.answer()

    assert answer.status == 400
    assert not child.received


@pytest.mark.uvicorn_only
async def test_a_body_that_stops_coming_is_refused(gateway: Carrier) -> None:
    async with gateway.connected() as client:
        await client.send(head("/v1/chat/completions", b"content-length: 100"), b'{"model":')
        answer = await client.answer()

    assert (answer.status, code_of(answer)) == (408, "request_timeout")


async def test_a_body_in_many_small_pieces_arrives(gateway: Carrier) -> None:
    body = chat(prompt="é" * 300)
    async with gateway.childs(answers) as child, gateway.connected() as client:
        await client.send(head("/v1/chat/completions", b"transfer-encoding: chunked"))
        for byte in body:
            await client.send(b"1\r\n%c\r\n" % byte)
            await asyncio.sleep(0)
        await client.send(b"0\r\n\r\n")
        assert (await client.answer()).status == 200

    assert child.received[0].body == body


@pytest.mark.uvicorn_only
async def test_a_client_that_does_not_read_is_cut_and_its_child_is_free(gateway: Carrier) -> None:
    closed = asyncio.Event()

    async def torrent(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        try:
            while True:
                await child.say(EVENT * 1000)
        finally:
            closed.set()

    async with gateway.childs(torrent), gateway.connected() as client:
        await client.ask(chat(stream=True))
        async with asyncio.timeout(60):
            await closed.wait()
