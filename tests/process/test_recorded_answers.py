"""A thousand answers of the real engine, replayed by a stand-in child in pieces of any size: what
comes out of the gateway is what went in, under both servers."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib
from collections.abc import Iterator

import pytest

from tests.process.carrying import Answer, Carrier, carrier
from tests.proxy.asking import chat
from tests.proxy.fakes import Connection, Received
from tests.support.captured_answers import Captured, answers

pytestmark = pytest.mark.slow

CLIENTS = 8
KEPT = {b"content-type", b"content-length"}
"""Of what the engine's answers say of themselves; the rest speaks of its connection and its own."""


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Carrier]:
    with carrier(request.param, tmp_path_factory.mktemp("replay")) as running:
        yield running


def split(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """All at once, in pieces of one size, or in pieces of many: through characters, line ends and
    the frames of HTTP."""
    sizes = chance.choice([[len(data)], [7], [4096], [1, 2, 3, 90, 1000], [1, 1, 5000]])
    at = 0
    while at < len(data):
        size = chance.choice(sizes)
        yield data[at : at + size]
        at += size


def chunked_anew(captured: Captured, chance: random.Random) -> bytes:
    """The same answer in other chunks than the engine's."""
    head = captured.raw.partition(b"\r\n\r\n")[0]
    parts = [part for part in split(captured.payload, chance) if part]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return head + b"\r\n\r\n" + chunks + b"0\r\n\r\n"


async def replay(received: Received, child: Connection) -> None:
    number = int(received.header("x-answer") or "")
    captured, chance = answers()[number], random.Random(number)
    assert received.body == captured.body
    raw = captured.raw
    if captured.is_stream and chance.random() < 0.5:
        raw = chunked_anew(captured, chance)
    for part in split(raw, chance):
        await child.raw(part)
        if chance.random() < 0.3:
            await asyncio.sleep(0)


async def test_a_thousand_answers_arrive_byte_for_byte(gateway: Carrier) -> None:
    left = list(enumerate(answers()))
    assert len(left) == 1000
    other: list[int] = []

    async def ask_on() -> None:
        async with gateway.connected() as client:
            while left:
                number, captured = left.pop()
                number_told, id_told = b"x-answer: %d" % number, b"x-request-id: r%d" % number
                await client.ask(captured.body, number_told, id_told, path=captured.path)
                got = await client.answer()
                kept = {header for header in captured.headers if header[0] in KEPT}
                ours = {(b"x-request-id", b"r%d" % number)}
                ours |= {(b"x-accel-buffering", b"no")} if captured.is_stream else set()
                servers = {b"date", b"transfer-encoding", b"server"}
                told = {header for header in got.headers if header[0] not in servers}
                if (got.status, got.body, told) != (captured.status, captured.payload, kept | ours):
                    other.append(number)

    async with gateway.childs(replay):
        await asyncio.gather(*[ask_on() for _ in range(CLIENTS)])

    assert not other


EVENTS = [b'data: {"n":%d}\n\n' % number for number in range(50)]


def packed_events() -> list[bytes]:
    """Each of them can be read when it has come, and none shows where it ends."""
    packer = zlib.compressobj(wbits=31)
    return [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS]


@pytest.mark.parametrize(
    ("events", "headers"),
    [(EVENTS, ()), (packed_events(), ("Content-Encoding: gzip",))],
    ids=["plain", "compressed"],
)
async def test_each_event_arrives_before_the_next_is_sent(
    gateway: Carrier, events: list[bytes], headers: tuple[str, ...]
) -> None:
    """Nothing is gathered on the way: the child says the next one when the client has the last."""
    seen = [asyncio.Event() for _ in events]

    async def in_turn(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream", *headers)
        for event, arrived in zip(events, seen, strict=True):
            await child.say(event)
            await arrived.wait()
        await child.finish()

    async with gateway.childs(in_turn), gateway.connected() as client:
        await client.ask(chat(stream=True))
        answer = Answer()
        async with asyncio.timeout(60):
            for count, arrived in enumerate(seen, 1):
                while answer.body != b"".join(events[:count]):
                    assert await client.more(answer)
                arrived.set()
            while not answer.whole:
                assert await client.more(answer)


async def test_a_compressed_answer_stays_as_it_is(gateway: Carrier) -> None:
    packed = gzip.compress(b'{"n":1}' * 1000)

    async def compresses(received: Received, child: Connection) -> None:
        await child.answer(packed, "Content-Encoding: gzip", "Vary: Accept-Encoding")

    async with gateway.childs(compresses), gateway.connected() as client:
        await client.ask(chat(), b"accept-encoding: gzip")
        answer = await client.answer()

    assert answer.body == packed
    assert answer.header(b"content-encoding") == b"gzip"
    assert answer.header(b"vary") == b"Accept-Encoding"
