"""Each limit ends the request with its own error, and its lease as the child's slot demands."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from proxy.relay import AnswerCut
from proxy.upstream import LONGEST_WHOLE
from scheduler.protocol import TimeLimits

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
    async with house(drips, answer_timeout_seconds=0.1) as h:
        exchange = await Exchange(h.app, body=chat(stream=True)).end()
        await h.scheduler.until_all_released()

    assert b"answer_timeout" in exchange.body
    assert b"[DONE]" not in exchange.body


async def drips(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    while True:
        await child.say(b"data: {}\n\n")
        await asyncio.sleep(0.005)


async def says_nothing(received: Received, child: Connection) -> None:
    await child.until_closed()


@pytest.mark.parametrize(
    ("script", "own", "code", "told"),
    [
        (says_nothing, TimeLimits(first_byte=0.05), "first_byte_timeout", "within 0.05 s"),
        (begins_a_stream, TimeLimits(idle=0.06), "answer_timeout", "for 0.06 s"),
        (drips, TimeLimits(answer=0.1), "answer_timeout", "longer than 0.1 s"),
    ],
    ids=["first byte", "idle", "answer"],
)
async def test_a_presets_own_limits_count_before_the_gateways(house, script, own, code, told):
    async with house(script) as h:
        h.scheduler.limits = own
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    error = exchange.body.split(b"\n\ndata: ")[-1].removeprefix(b"data: ")
    assert json.loads(error)["error"]["code"] == code
    assert told in json.loads(error)["error"]["message"]


async def test_a_presets_own_limits_may_be_longer_than_the_gateways(house):
    async def takes_time(received: Received, child: Connection) -> None:
        await asyncio.sleep(0.1)
        await child.begin("text/event-stream")
        await child.say(b"data: 1\n\n")
        await asyncio.sleep(0.1)
        await child.finish()

    gateways = {
        "first_byte_timeout_seconds": 0.02,
        "between_tokens_timeout_seconds": 0.02,
        "answer_timeout_seconds": 0.02,
    }
    async with house(takes_time, **gateways) as h:
        h.scheduler.limits = TimeLimits(first_byte=60, idle=60, answer=60)
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    assert exchange.body == b"data: 1\n\n"
    assert exchange.ended_well


async def test_an_abandoned_answer_is_given_up_at_its_presets_own_limit(house):
    async with house(says_nothing) as h:
        h.scheduler.limits = TimeLimits(first_byte=0.02, answer=0.1)
        await Exchange(h.app, body=chat()).end()
        await h.scheduler.until_all_released()


async def test_a_child_that_accepts_nobody_is_given_up_at_its_presets_own_limit(house):
    async with house(says_nothing) as h, house_without_room(h) as full:
        h.scheduler.addresses = [full]
        h.scheduler.limits = TimeLimits(connect=0.05)
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.json["error"]["code"] == "model_died"


@asynccontextmanager
async def house_without_room(h) -> AsyncIterator[str]:
    """A socket that others have filled already."""
    path = h.scheduler.addresses[0] + ".full"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as before_us:
        listener.bind(path)
        listener.listen(0)
        before_us.connect(path)
        yield path


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
    limits = {"first_byte_timeout_seconds": 0.02, "answer_timeout_seconds": 0.1}
    async with house(says_nothing, **limits) as h:
        await Exchange(h.app, body=chat()).end()
        await h.scheduler.until_all_released()
