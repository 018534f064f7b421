from __future__ import annotations

import asyncio
import json

import pytest

from proxy.relay import AnswerCut
from proxy.upstream import LONGEST_WHOLE

from .asking import Exchange, chat, until
from .fakes import Connection, Received


class Stream:
    """A stream that ends when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(b'data: {"n":1}\n\n')
        await self.go_on.wait()
        await child.say(b"data: [DONE]\n\n")
        await child.finish()


async def test_an_answer_under_way_may_end_during_the_drain(house):
    stream = Stream()
    async with house(stream) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        await until(lambda: exchange.body)
        drain = asyncio.create_task(h.app.drain(30))
        await asyncio.sleep(0)
        stream.go_on.set()
        await drain
        await exchange.end()

    assert exchange.body.endswith(b"data: [DONE]\n\n")
    assert not h.scheduler.held


async def test_a_stream_that_outlives_the_drain_ends_with_an_error_event(house):
    async with house(Stream()) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        await until(lambda: exchange.body)
        await h.app.drain(0.02)
        await exchange.end()
        await h.scheduler.until_all_released()

    last = exchange.body.split(b"\n\n")[1]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "shutting_down"
    assert b"[DONE]" not in exchange.body


async def test_a_whole_answer_that_outlives_the_drain_is_cut(house):
    async def script(received: Received, child: Connection) -> None:
        await child.begin_whole(length=LONGEST_WHOLE + 1)
        await child.raw(b"{")
        await child.until_closed()

    async with house(script) as h:
        exchange = Exchange(h.app, body=chat())
        await until(lambda: exchange.body)
        await h.app.drain(0.02)
        with pytest.raises(AnswerCut):
            await exchange.end()

    assert h.scheduler.leases[0].abandoned


async def test_those_who_only_wait_are_told_at_once(house):
    async with house(Stream()) as h:
        h.scheduler.open.clear()
        exchange = Exchange(h.app, body=chat())
        await until(lambda: h.scheduler.waiting)
        await h.app.drain(30)
        await exchange.end()

    assert exchange.status == 503
    assert exchange.json["error"]["code"] == "shutting_down"
    assert exchange.header(b"retry-after") is not None
    assert h.scheduler.waiting == 0


async def test_nothing_new_is_taken_while_draining(house):
    async with house(Stream()) as h:
        await h.app.drain(0)
        exchange = await Exchange(h.app, body=chat()).end()
        ready = await Exchange(h.app, "/ready", method="GET").end()

    assert exchange.json["error"]["code"] == "shutting_down"
    assert not h.scheduler.asked
    assert ready.status == 503


async def test_closing_leaves_no_task_behind(house):
    async def never(received: Received, child: Connection) -> None:
        await child.until_closed()

    before = asyncio.all_tasks()
    async with house(never) as h:
        exchange = Exchange(h.app, body=chat())
        await h.child.arrived.wait()
        exchange.leave()
        await exchange.end()
        await h.app.close()
        assert h.scheduler.closed
        # Its slot is busy still: the scheduler sees to it when the connection is gone.
        assert h.scheduler.held

    await until(lambda: not asyncio.all_tasks() - before)
