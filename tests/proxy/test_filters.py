"""A preset's request filters, between the client's body and the child's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy import body as bodies
from scheduler.protocol import Filters

from .asking import Exchange, chat
from .fakes import CRASH, Connection, Received
from .test_bodies import open_files


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


async def dies(received: Received, child: Connection) -> None:
    pass


async def streams(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    await child.say(b"data: [DONE]\n\n")
    await child.finish()


async def asked(house: Any, body: bytes, filters: Filters | None, **settings: Any) -> Any:
    """(what the client sees, what the child got)."""
    async with house(answers, **settings) as h:
        h.scheduler.filters = filters
        exchange = await Exchange(h.app, body=body).end()
        room = h.app._room
        assert (room.held, room.spooled) == (0, 0)
        return exchange, h.child.received[0]


async def test_parameters_are_stripped_filled_in_and_set_in_this_order(house):
    filters = Filters(
        strip=["temperature", "seed"], defaults={"temperature": 0.1, "top_p": 0.5}, set={"top_k": 7}
    )
    body = chat(temperature=2, top_p=None, top_k=1, min_p=0.1)

    exchange, got = await asked(house, body, filters)

    assert json.loads(got.body) == {
        "model": "tiny",
        "messages": [],
        "min_p": 0.1,
        "temperature": 0.1,
        "top_p": 0.5,
        "top_k": 7,
    }
    assert got.header("content-length") == str(len(got.body))
    assert (
        exchange.header(b"x-corral-filters")
        == b"stripped=temperature; defaulted=temperature,top_p; set=top_k"
    )


async def test_a_body_without_filters_is_passed_on_byte_by_byte(house):
    body = b' {"model" : "tiny",\n "x": 1.50, "\\u0078": 2e0 }\n'

    exchange, got = await asked(house, body, None)

    assert got.body == body
    assert exchange.header(b"x-corral-filters") is None


async def test_a_body_that_filters_do_not_change_is_passed_on_byte_by_byte(house):
    body = b' {"model" : "tiny", "top_k": 7, "top_p": 0.50 }'
    filters = Filters(strip=["temperature"], defaults={"top_p": 0.9}, set={"top_k": 7})

    exchange, got = await asked(house, body, filters)

    assert got.body == body
    assert exchange.header(b"x-corral-filters") is None


async def test_what_stays_in_a_filtered_body_is_the_same_byte_by_byte(house):
    kept = b'"big":123456789012345678901234567890,"x":1.50,"text":"\\u00e9\\n\xc3\xa9",'
    body = b'{"model":"tiny",' + kept + b'"deep":{"temperature": 1},"temperature":1}'

    _, got = await asked(house, body, Filters(strip=["temperature"]))

    assert got.body == b'{"model":"tiny",' + kept + b'"deep":{"temperature": 1}}'


async def test_a_name_written_with_escapes_or_twice_is_stripped_all_the_same(house):
    body = b'{"model":"tiny","temper\\u0061ture":1,"temperature":2}'

    _, got = await asked(house, body, Filters(strip=["temperature"]))

    assert got.body == b'{"model":"tiny"}'


@pytest.mark.parametrize("settings", [{}, {"retry_body": 10_000}], ids=["in memory", "in a file"])
@pytest.mark.parametrize("changes", [True, False])
async def test_a_large_body_is_filtered_where_it_lies_and_nothing_is_left_of_it(
    house, tmp_path, settings, changes
):
    text = "é" * 900_000
    body = chat(prompt=text, **({"temperature": 1} if changes else {}))

    _, got = await asked(
        house, body, Filters(strip=["temperature"], set={"messages": []}), **settings
    )

    assert json.loads(got.body) == {"model": "tiny", "messages": [], "prompt": text}
    assert got.header("content-length") == str(len(got.body))
    assert not open_files(tmp_path / "tmp")


async def test_no_room_for_the_filtered_copy_of_a_body_is_said(house, tmp_path):
    body = chat(prompt="x" * 100_000, temperature=1)
    async with house(answers, retry_body=10_000, spool_limit=150_000) as h:
        h.scheduler.filters = Filters(strip=["temperature"])
        exchange = await Exchange(h.app, body=body).end()
        await h.scheduler.until_all_released()

        assert h.app._room.spooled == 0
    assert exchange.json["error"]["code"] == "queue_full"
    assert not open_files(tmp_path / "tmp")


async def test_a_disk_that_fills_under_the_filtered_copy_is_said(house, tmp_path, monkeypatch):
    write = bodies.write_parts
    body = chat(prompt="x" * 100_000, temperature=1)
    async with house(answers, retry_body=10_000) as h:
        h.scheduler.filters = Filters(strip=["temperature"])

        def full(spool: Any, parts: Any, size: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("proxy.filtering.write_parts", full)
        exchange = await Exchange(h.app, body=body).end()
        await h.scheduler.until_all_released()

        assert h.app._room.spooled == 0
    assert bodies.write_parts is write
    assert exchange.json["error"]["code"] == "queue_full"
    assert not open_files(tmp_path / "tmp")


async def test_another_try_is_filtered_from_what_the_client_sent(house):
    async with house(dies, answers) as h:
        h.scheduler.endings = [CRASH]
        h.scheduler.filters = Filters(strip=["temperature"], set={"n": 1})
        exchange = await Exchange(h.app, body=chat(temperature=1)).end()

        assert exchange.status == 200
        first, second = (child.received[0].body for child in h.children)
        assert first == second == b'{"model":"tiny","messages":[],"n":1}'


async def test_filters_that_are_gone_at_the_second_try_are_not_told(house):
    async def edits(received: Received, child: Connection) -> None:
        h.scheduler.filters = None

    async with house(edits, answers) as h:
        h.scheduler.endings = [CRASH]
        h.scheduler.filters = Filters(strip=["temperature"])
        body = chat(temperature=1)
        exchange = await Exchange(h.app, body=body).end()

        assert h.children[1].received[0].body == body
        assert exchange.header(b"x-corral-filters") is None


async def test_a_stream_says_what_was_filtered_too(house):
    async with house(streams) as h:
        h.scheduler.filters = Filters(set={f"p{number}": 1 for number in range(23)})
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    told = ",".join(f"p{number}" for number in range(20))
    assert exchange.header(b"x-corral-filters") == f"set={told},+3".encode()


async def test_a_child_cannot_say_what_was_filtered(house):
    async def lies(received: Received, child: Connection) -> None:
        await child.answer(b"{}", "x-corral-filters: set=nothing")

    async with house(lies) as h:
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.header(b"x-corral-filters") is None


BRIEF = Filters(defaults={"system": "Be brief."})
SYSTEM = b'{"role":"system","content":"Be brief."}'


async def test_a_system_prompt_is_put_before_the_messages_and_these_stay_as_they_are(house):
    turn = b'{"role" : "user", "content":"\\u00e9", "x": 1.50}'
    body = b'{"model":"tiny","messages": [ ' + turn + b" ]}"

    exchange, got = await asked(house, body, BRIEF)

    assert got.body == b'{"model":"tiny","messages":[' + SYSTEM + b", " + turn + b" ]}"
    assert exchange.header(b"x-corral-filters") == b"defaulted=system"


@pytest.mark.parametrize(
    "rest",
    [
        b'"messages":[{"role":"system","content":"x"},{"role":"user","content":"y"}]',
        b'"messages":[{"role":"developer","content":"x"}]',
        b'"messages":[{"role":"user","content":"x"}],"system":"Be long."',
        b'"messages":[]',
        b'"messages":"none"',
        b'"messages":[7]',
        b'"messages":null',
        b'"prompt":"x"',
    ],
)
async def test_who_has_a_system_prompt_or_no_chat_gets_none(house, rest: bytes):
    body = b'{"model":"tiny",' + rest + b"}"

    exchange, got = await asked(house, body, BRIEF)

    assert got.body == body
    assert exchange.header(b"x-corral-filters") is None
