"""A request is tried again once, and only before a byte of an answer; then errors are explicit."""

from __future__ import annotations

import json

import pytest

from proxy.relay import AnswerCut
from proxy.upstream import LONGEST_WHOLE

from .asking import Exchange, chat
from .fakes import CRASH, STOPPED, Connection, Received


async def dies(received: Received, child: Connection) -> None:
    """The connection ends without an answer."""


async def dies_after_its_head(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b'{"ok":true}')


@pytest.mark.parametrize("first", [dies, dies_after_its_head])
@pytest.mark.parametrize("ending", [CRASH, STOPPED, None])
async def test_a_request_whose_child_died_first_is_tried_again(house, first, ending):
    async with house(first, answers) as h:
        h.scheduler.endings = [ending]
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.json == {"ok": True}
    assert h.children[1].received[0].body == chat()
    assert h.scheduler.asked[1].age >= h.scheduler.asked[0].age
    assert not h.scheduler.held


async def test_a_child_that_is_no_longer_there_is_tried_again_elsewhere(house):
    async with house(answers) as h:
        h.scheduler.addresses.insert(0, h.scheduler.addresses[0] + ".gone")
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 200
    assert not h.scheduler.held


async def test_a_request_under_which_two_instances_crashed_is_refused(house):
    async with house(dies, dies) as h:
        h.scheduler.endings = [CRASH, CRASH]
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 500
    assert exchange.json["error"]["code"] == "request_crashes_model"
    assert "while this request was under way" in exchange.json["error"]["message"]
    assert "signal 9" in exchange.json["error"]["message"]
    assert exchange.header(b"x-should-retry") == b"false"
    assert not h.scheduler.held


@pytest.mark.parametrize("endings", [[CRASH, CRASH], [STOPPED, CRASH]])
async def test_no_client_is_told_what_a_child_said_while_it_served(house, endings):
    """It may have quoted other clients, and the paths of this machine."""
    async with house(dies, dies) as h:
        h.scheduler.endings = endings
        exchange = await Exchange(h.app, body=chat()).end()

    assert CRASH.words
    assert CRASH.words.encode() not in exchange.body


@pytest.mark.parametrize(
    ("endings", "code"),
    [
        ([CRASH, STOPPED], "model_stopped"),
        ([STOPPED, CRASH], "model_died"),
        ([STOPPED, STOPPED], "model_stopped"),
        ([None, None], "model_died"),
    ],
)
async def test_stopping_an_instance_is_not_counted_as_a_crash_of_the_request(house, endings, code):
    async with house(dies, dies) as h:
        h.scheduler.endings = endings
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.json["error"]["code"] == code
    assert len(h.scheduler.leases) == 2
    assert not h.scheduler.held


async def test_children_that_went_with_the_scheduler_are_not_counted_as_crashes(house):
    async with house(dies, dies, answers) as h:
        h.scheduler.loses_leases = True
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 200
    assert len(h.scheduler.leases) == 3


async def test_a_scheduler_that_goes_away_again_and_again_ends_the_request(house):
    async with house(dies) as h:
        h.scheduler.loses_leases = True
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 503
    assert exchange.json["error"]["code"] == "scheduler_unavailable"


async def test_an_error_of_the_child_is_an_answer(house):
    async def fails(received: Received, child: Connection) -> None:
        await child.answer(b'{"error":{}}', status="500 Internal Server Error")

    async with house(fails, answers) as h:
        exchange = await Exchange(h.app, body=chat()).end()

    assert (exchange.status, exchange.body) == (500, b'{"error":{}}')
    assert len(h.scheduler.leases) == 1


async def test_a_stream_broken_in_mid_frame_ends_with_an_error_event_and_never_looks_whole(house):
    async def breaks(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(b'data: {"n":1}\n\ndata: {"n":')

    async with house(breaks) as h:
        h.scheduler.endings = [CRASH]
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    first, last, rest = exchange.body.split(b"\n\n")
    assert first == b'data: {"n":1}'
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["code"] == "model_died"
    assert "signal 9" in error["message"]
    assert rest == b""
    assert b"[DONE]" not in exchange.body
    assert exchange.ended_well
    assert len(h.scheduler.leases) == 1
    assert not h.scheduler.held


async def test_a_short_answer_that_breaks_has_not_begun(house):
    async def breaks(received: Received, child: Connection) -> None:
        await child.begin_whole(length=100)
        await child.raw(b'{"choices":[')

    async with house(breaks, answers) as h:
        h.scheduler.endings = [CRASH]
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.json == {"ok": True}
    assert not h.scheduler.held


async def test_a_long_answer_that_breaks_is_cut_without_a_clean_end(house):
    async def breaks(received: Received, child: Connection) -> None:
        await child.begin_whole(length=LONGEST_WHOLE + 1)
        await child.raw(b'{"choices":[')

    async with house(breaks) as h:
        h.scheduler.endings = [CRASH]
        exchange = Exchange(h.app, body=chat())
        with pytest.raises(AnswerCut, match="died"):
            await exchange.end()

    assert exchange.body == b'{"choices":['
    assert not exchange.ended_well
    assert not h.scheduler.held


async def test_a_large_body_is_sent_again_whole(house):
    body = chat(prompt="x" * 3_000_000)
    async with house(dies, answers, retry_body=100_000) as h:
        exchange = await Exchange(h.app, body=body).end()

    assert exchange.status == 200
    assert h.children[1].received[0].body == body
