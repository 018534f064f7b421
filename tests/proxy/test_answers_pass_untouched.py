from __future__ import annotations

import asyncio
import random

import pytest

from .asking import Exchange, chat
from .fakes import Connection, Received

STREAM = b"".join(
    b'data: {"choices":[{"delta":{"content":"%d \xe2\x80\xa9 \xc3\xa9"}}]}\n\n' % n
    for n in range(40)
) + (
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":40},'
    b'"timings":{"cache_n":3,"prompt_n":4,"predicted_n":40}}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("seed", range(20))
async def test_a_stream_arrives_byte_for_byte_however_it_was_cut_up(house, seed):
    chance = random.Random(seed)

    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        at = 0
        while at < len(STREAM):
            size = chance.choice([1, 2, 7, 90, 1000])
            await child.say(STREAM[at : at + size])
            at += size
            if chance.random() < 0.2:
                await asyncio.sleep(0)
        await child.finish()

    async with house(script) as h:
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    assert exchange.body == STREAM
    assert exchange.ended_well
    assert h.scheduler.leases[0].tokens == (7, 3, 40)
    assert not h.scheduler.held


async def test_an_answer_arrives_whole_with_its_length_and_status(house):
    async def script(received: Received, child: Connection) -> None:
        await child.answer(
            b'{"object":"list","usage":{"prompt_tokens":5,"total_tokens":5},"data":[]}',
            status="203 Non-Authoritative Information",
        )

    async with house(script) as h:
        exchange = await Exchange(h.app, "/v1/embeddings", body=chat()).end()

    assert exchange.status == 203
    assert exchange.header(b"content-length") == str(len(exchange.body)).encode()
    assert exchange.ended_well
    assert h.scheduler.leases[0].tokens == (5, None, 0)
    assert not h.scheduler.held


async def test_the_child_gets_the_body_and_query_as_they_were_sent(house):
    body = b'{ "model" : "an-alias","x":"\xc3\xa9 \\u00e9",  "n":1.50 }'

    async def script(received: Received, child: Connection) -> None:
        await child.answer(b"{}")

    async with house(script) as h:
        await Exchange(h.app, body=body, query=b"a=%2F&b=+1").end()

    received = h.child.received[0]
    assert received.body == body
    assert received.line == "POST /v1/chat/completions?a=%2F&b=+1 HTTP/1.1"
    assert h.scheduler.asked[0].preset == "an-alias"


async def test_an_empty_answer_is_an_answer(house):
    async def script(received: Received, child: Connection) -> None:
        await child.raw(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with house(script) as h:
        exchange = await Exchange(h.app, body=chat()).end()

    assert (exchange.status, exchange.body, exchange.ended_well) == (204, b"", True)
    assert not h.scheduler.held
