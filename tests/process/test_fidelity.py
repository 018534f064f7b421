"""What comes out of the gateway is what went in, as it comes, and no more of it is kept than must
be: a stand-in child on one side, a client that sees each byte on the other, under both servers."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import random
import socket
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.process.carrying import Answer, Carrier, carrier
from tests.proxy.asking import chat, until
from tests.proxy.fakes import Connection, Received
from tests.support.captured_answers import Captured, answers

pytestmark = pytest.mark.slow

CLIENTS = 8
KEPT = {b"content-type", b"content-length"}
"""Of what the engine's answers say of themselves; the rest speaks of its connection and its own."""
AS_DATA = {
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
}


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Carrier]:
    limits = {"CORRAL_DEAD_CLIENT_TIMEOUT": "2"}
    with carrier(request.param, tmp_path_factory.mktemp("fidelity"), **limits) as running:
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


def is_told_otherwise(captured: Captured) -> bool:
    """Errors on Anthropic's path, in its form (tests/proxy/test_said_otherwise.py)."""
    return captured.path == "/v1/messages" and captured.status != 200


async def test_a_thousand_answers_of_the_engine_arrive_byte_for_byte(gateway: Carrier) -> None:
    assert len(answers()) == 1000
    left = [each for each in enumerate(answers()) if not is_told_otherwise(each[1])]
    assert len(left) > 990
    other: list[int] = []

    async def ask_on() -> None:
        async with gateway.connected() as client:
            while left:
                number, captured = left.pop()
                number_told, id_told = b"x-answer: %d" % number, b"x-request-id: r%d" % number
                await client.ask(captured.body, number_told, id_told, path=captured.path)
                got = await client.answer()
                kept = {header for header in captured.headers if header[0] in KEPT}
                ours = {(b"x-request-id", b"r%d" % number), *AS_DATA}
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


TCP_REPAIR = 19
"""A socket in this state is closed without a word to the other side: as if its machine were off."""


async def test_a_client_that_vanished_without_closing_is_noticed(gateway: Carrier) -> None:
    async def waits(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(EVENTS[0])
        await child.until_closed()

    async with gateway.childs(waits) as child, gateway.connected() as client:
        await client.ask(chat(stream=True))
        await client.more(Answer())
        try:
            client.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        except PermissionError:
            pytest.skip("only root may do that to a connection")
        client.writer.transport.abort()
        await until(lambda: child.ended)


HUGE = 100 << 20
MIB = 1 << 20


class Memory:
    """The most that a process has held of its own since the block began, in bytes: what it maps of
    files is the kernel's."""

    def __init__(self, pid: int) -> None:
        self.grown = 0
        self._pid = pid
        self._before = self._now()

    async def watch(self) -> None:
        while True:
            self.grown = max(self.grown, self._now() - self._before)
            await asyncio.sleep(0.01)

    def _now(self) -> int:
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) << 10


@asynccontextmanager
async def memory_of(gateway: Carrier) -> AsyncIterator[Memory]:
    memory = Memory(gateway.pid)
    watching = asyncio.create_task(memory.watch())
    try:
        yield memory
    finally:
        watching.cancel()


@pytest.mark.uvicorn_only
async def test_a_body_of_100_mb_takes_no_100_mb(gateway: Carrier) -> None:
    """From a client that sends as fast as it can, to a child that reads slowly."""
    body = chat(image="x" * HUGE)
    taken = hashlib.sha256()

    async def reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        left = len(body)
        while left:
            part = await reader.read(MIB)
            taken.update(part)
            left -= len(part)
            await asyncio.sleep(0.001)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with (
        await asyncio.start_unix_server(reads, str(gateway.child), limit=MIB),
        memory_of(gateway) as memory,
        gateway.connected() as client,
    ):
        await client.ask(body)
        assert (await client.answer()).status == 200

    assert taken.digest() == hashlib.sha256(body).digest()
    assert memory.grown < 32 * MIB


@pytest.mark.uvicorn_only
async def test_an_answer_of_100_mb_takes_no_100_mb(gateway: Carrier) -> None:
    """From a child that sends as fast as it can, to a client that reads slowly."""

    async def sends(received: Received, child: Connection) -> None:
        await child.begin_whole(HUGE)
        for _ in range(HUGE // MIB):
            await child.raw(b"x" * MIB)

    got = 0
    async with gateway.childs(sends), memory_of(gateway) as memory, gateway.connected() as client:
        await client.ask(chat())
        await client.reader.readuntil(b"\r\n\r\n")
        while got < HUGE:
            got += len(await client.reader.read(MIB))
            await asyncio.sleep(0.001)

    assert got == HUGE
    assert memory.grown < 16 * MIB
