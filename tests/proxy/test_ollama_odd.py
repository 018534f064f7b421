"""What goes wrong between a client of Ollama and a scripted child."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ollama.telling import Telling, Took
from scheduler.protocol import Refused

from .asking import until
from .fakes import CRASH, Connection, Received
from .ollama_child import COUNTS, HELLO, HI, answers, asking, delta, event, lines_of, streams


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"messages": HI, "keep_alive": "soon"}, 400, "invalid duration"),
        ({"messages": HI, "options": {"top_k": "x"}}, 400, 'option "top_k" must be of type'),
        ({"messages": 7}, 400, "messages"),
        ({"messages": HI, "stream": "no"}, 400, "stream"),
        ({"model": "", "messages": HI}, 400, "model is required"),
    ],
)
async def test_bad_input_is_refused_in_ollamas_form(house, fields, status, error):
    async with house(streams(*HELLO)) as at:
        exchange = await asking(at.app, **fields).end()

    assert exchange.status == status
    assert error in exchange.json["error"]
    assert at.child.received == []
    assert at.scheduler.held == []


async def test_an_unknown_model_is_404_in_the_words_that_clients_look_for(house):
    async with house(streams()) as at:
        at.scheduler.refusal = Refused("model_not_found", "There is none.")
        for fields in ({"messages": HI}, {"keep_alive": 0}):
            exchange = await asking(at.app, model="x", **fields).end()
            assert exchange.status == 404
            assert exchange.json["error"] == 'model "x" not found, try pulling it first'


async def test_a_full_queue_is_503_with_a_time_to_come_back(house):
    async with house(streams()) as at:
        at.scheduler.refusal = Refused("queue_full", "Too many.", retry_after_seconds=2.0)
        exchange = await asking(at.app, messages=HI).end()

    assert exchange.status == 503
    assert exchange.header(b"retry-after") == b"2"
    assert exchange.json == {"error": "Too many.", "code": "queue_full"}


@pytest.mark.parametrize(
    ("status", "told"), [("400 Bad Request", 400), ("500 Oh", 500), ("501 Not Implemented", 400)]
)
async def test_a_childs_own_error_is_told_in_ollamas_form(house, status, told):
    error = {"error": {"code": 0, "message": "exceeds the available context size", "type": "x"}}
    async with house(answers(error, status)) as at:
        for stream in (True, False):
            exchange = await asking(at.app, messages=HI, stream=stream).end()
            assert exchange.status == told
            assert exchange.json == {"error": "exceeds the available context size"}


async def test_an_error_in_the_childs_stream_is_the_last_line(house):
    go_on = asyncio.Event()

    async def fails(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(HELLO[1])
        await go_on.wait()
        await child.say(event({"error": {"message": "it broke", "code": 500}}))
        await child.finish()

    async with house(fails) as at:
        exchange = asking(at.app, messages=HI)
        await until(lambda: exchange.body)
        go_on.set()
        await exchange.end()
        whole = await asking(at.app, messages=HI, stream=False).end()

    first, last = lines_of(exchange.body)
    assert first["message"]["content"] == "Hel"
    assert last == {"error": "it broke"}
    assert (whole.status, whole.json) == (500, {"error": "it broke"})


async def test_a_child_that_dies_in_mid_answer_leaves_an_error_as_the_last_line(house):
    async def dies(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(HELLO[1])

    async with house(dies) as at:
        at.scheduler.endings = [CRASH, CRASH]
        exchange = await asking(at.app, messages=HI).end()
        whole = await asking(at.app, messages=HI, stream=False).end()

    first, last = lines_of(exchange.body)
    assert first["message"]["content"] == "Hel"
    assert "died of signal 9" in last["error"]
    assert "done" not in last
    assert exchange.ended_well
    assert whole.status == 502
    assert "died" in whole.json["error"]


async def test_a_model_that_falls_silent_leaves_an_error_as_the_last_line(house):
    async def falls_silent(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(HELLO[1])
        await child.until_closed()

    async with house(falls_silent, between_tokens_timeout_seconds=0.2) as at:
        exchange = await asking(at.app, messages=HI).end()
        whole = await asking(at.app, messages=HI, stream=False).end()

    assert "said nothing more" in lines_of(exchange.body)[-1]["error"]
    assert whole.status == 504


async def test_an_event_without_an_end_is_not_kept(house):
    async def goes_on(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        for _ in range(10):
            await child.say(b"data: " + b"x" * (1 << 20) + b"\n")
        await child.finish()

    async with house(goes_on) as at:
        exchange = await asking(at.app, messages=HI).end()

    assert exchange.status == 502
    assert "event without an end" in exchange.json["error"]


async def test_a_stream_that_ends_without_a_word_is_an_error(house):
    async with house(streams(HELLO[1])) as at:
        whole = await asking(at.app, messages=HI, stream=False).end()
        exchange = await asking(at.app, messages=HI).end()

    assert whole.status == 502
    assert "broke off" in whole.json["error"]
    last = json.loads(exchange.body.splitlines()[-1])
    assert "broke off" in last["error"]


async def test_a_client_that_leaves_in_mid_answer_ends_its_generation(house):
    closed = asyncio.Event()

    async def script(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(HELLO[1])
        await child.until_closed()
        closed.set()

    async with house(script) as at:
        exchange = asking(at.app, messages=HI)
        await until(lambda: exchange.body)
        exchange.leave()
        await exchange.end()
        await closed.wait()
        await at.scheduler.until_all_released()


async def test_a_client_that_does_not_read_holds_up_its_child_and_is_cut(house):
    async def script(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        for _ in range(2000):
            await child.say(delta(content="x" * 1000))
        await child.finish()

    async with house(script, slow_reader_timeout_seconds=0.2) as at:
        exchange = asking(at.app, messages=HI)
        await until(lambda: exchange.messages)
        exchange.reading.clear()
        with pytest.raises(Exception, match="does not read"):
            await exchange.end()
        assert len(exchange.messages) < 1000
        await at.scheduler.until_all_released()


@given(st.lists(st.integers(1, 600), max_size=12))
def test_however_a_stream_is_cut_into_parts_the_same_is_told(cuts):
    whole = b": a comment\n\n" + b"".join(HELLO).replace(b"\n", b"\r\n")
    telling, told, at = Telling("m", is_chat=True, streams=True), b"", 0
    for end in [*sorted(cuts), len(whole)]:
        told += telling.heard(whole[at:end], is_stream=True)
        at = max(at, end)
    [last] = telling.end(Took(3.0, 1.0, 0.5))

    said = [json.loads(line)["message"]["content"] for line in told.splitlines()]
    assert "".join(said) == "Hello"
    assert COUNTS.items() <= last.items()
    assert (last["total_duration"], last["load_duration"]) == (3_000_000_000, 1_000_000_000)
