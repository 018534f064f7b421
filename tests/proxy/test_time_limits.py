"""Each limit ends the request with its own error, and its lease as the child's slot demands."""

from __future__ import annotations

import asyncio
import json

import pytest

from proxy.relay import AnswerCut
from proxy.upstream import LONGEST_WHOLE

from .asking import Exchange, chat
from .fakes import Connection, Received


async def test_a_child_that_does_not_begin_is_given_up_and_its_lease_abandoned(house):
    go_on = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await go_on.wait()
        await child.answer(b"{}")

    async with house(script, first_byte_timeout_seconds=0.05) as h:
        exchange = await Exchange(h.app, body=chat()).end()
        assert exchange.status == 504
        assert exchange.json["error"]["code"] == "first_byte_timeout"
        assert h.scheduler.leases[0].abandoned
        assert h.scheduler.held

        go_on.set()
        await h.scheduler.until_all_released()
    assert len(h.scheduler.leases) == 1


async def begins_a_stream(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    await child.say(b'data: {"n":1}\n\n')
    await child.until_closed()


async def test_a_stream_that_stands_still_is_closed_with_an_error_event(house):
    async with house(begins_a_stream, between_tokens_timeout_seconds=0.05) as h:
        exchange = await Exchange(h.app, body=chat(stream=True)).end()
        await h.scheduler.until_all_released()

    error = json.loads(exchange.body.split(b"\n\n")[1].removeprefix(b"data: "))["error"]
    assert error["code"] == "answer_timeout"
    assert b"[DONE]" not in exchange.body
    assert not h.scheduler.leases[0].abandoned


async def test_an_answer_that_takes_too_long_as_a_whole_is_ended(house):
    async def drips(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        while True:
            await child.say(b"data: {}\n\n")
            await asyncio.sleep(0.005)

    async with house(drips, answer_timeout_seconds=0.1) as h:
        exchange = await Exchange(h.app, body=chat(stream=True)).end()
        await h.scheduler.until_all_released()

    assert b"answer_timeout" in exchange.body
    assert b"[DONE]" not in exchange.body


async def test_a_whole_answer_that_stands_still_is_cut(house):
    go_on = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await child.begin_whole(length=LONGEST_WHOLE + 2)
        await child.raw(b"{}")
        await go_on.wait()
        await child.raw(b" " * LONGEST_WHOLE)

    async with house(script, between_tokens_timeout_seconds=0.05) as h:
        exchange = Exchange(h.app, body=chat())
        with pytest.raises(AnswerCut):
            await exchange.end()
        assert h.scheduler.leases[0].abandoned
        go_on.set()
        await h.scheduler.until_all_released()


async def test_an_abandoned_answer_without_an_end_is_given_up_at_the_answer_limit(house):
    async def never(received: Received, child: Connection) -> None:
        await child.until_closed()

    limits = {"first_byte_timeout_seconds": 0.02, "answer_timeout_seconds": 0.1}
    async with house(never, **limits) as h:
        await Exchange(h.app, body=chat()).end()
        await h.scheduler.until_all_released()
