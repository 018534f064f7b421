from __future__ import annotations

import asyncio
import socket

import pytest

from proxy.relay import AnswerCut

from .asking import Exchange, chat
from .fakes import Connection, Received

FRAME = b"data: " + b"x" * 10_000 + b"\n\n"


class Torrent:
    """A child that streams as fast as it is read, and counts what it got rid of."""

    def __init__(self) -> None:
        self.sent = 0
        self.closed = asyncio.Event()

    async def __call__(self, received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        try:
            while True:
                await child.say(FRAME)
                self.sent += len(FRAME)
        finally:
            self.closed.set()


async def until_it_stands_still(torrent: Torrent) -> None:
    while True:
        before = torrent.sent
        await asyncio.sleep(0.2)
        if torrent.sent == before:
            return


async def test_a_reader_that_stops_holds_up_the_child_not_our_memory(house):
    torrent = Torrent()
    async with house(torrent, slow_reader_timeout_seconds=60) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        exchange.reading.clear()
        async with asyncio.timeout(60):
            await until_it_stands_still(torrent)

        # Buffers of the two sockets, the child's writer and our client; nothing grows beside them.
        sockets = socket.socket(socket.AF_UNIX)
        with sockets:
            kernel = sockets.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert torrent.sent < 2 * kernel + (1 << 20)

        exchange.leave()
        await exchange.end()
        await h.scheduler.until_all_released()


async def test_a_reader_that_stays_still_is_cut_off_and_its_generation_cancelled(house):
    torrent = Torrent()
    async with house(torrent, slow_reader_timeout_seconds=0.05) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        exchange.reading.clear()
        with pytest.raises(AnswerCut, match="does not read"):
            await exchange.end()
        await h.scheduler.until_all_released()
        async with asyncio.timeout(30):
            await torrent.closed.wait()

    assert not exchange.ended_well


async def test_a_slow_reader_that_goes_on_reading_gets_everything(house):
    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        for _ in range(30):
            await child.say(FRAME)
        await child.finish()

    async with house(script, slow_reader_timeout_seconds=20) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        while not exchange.task.done():
            exchange.reading.clear()
            await asyncio.sleep(0.002)
            exchange.reading.set()
            await asyncio.sleep(0)
        await exchange.end()

    assert exchange.body == FRAME * 30
    assert not h.scheduler.held
