"""Resuming, stopping and finding conversations: llama.cpp's paths, answers and texts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from proxy.streams import LONGEST_LOOKUP, MOST_READERS
from scheduler.protocol import MOST_LOOKED_UP, StreamState

from .asking import Exchange, until
from .fakes import Connection, Received

STREAM = b'data: {"n":1}\n\ndata: {"n":2}\n\ndata: [DONE]\n\n'


def child_at(h, id: str = "c", state: str = "generating", **fields) -> None:
    address = h.scheduler.addresses[0]
    h.scheduler.states["", id] = StreamState(id, state, f"key-{id}", address, **fields)


def kept_at(h, path: Path, id: str = "c", begin: int = 0) -> None:
    size = path.stat().st_size
    h.scheduler.states["", id] = StreamState(
        id, "kept", f"key-{id}", path=str(path), begin=begin, size=size, began=5, ended=9
    )


def get(h, query: bytes, *headers: tuple[bytes, bytes]) -> Exchange:
    return Exchange(h.app, "/v1/stream", method="GET", body=b"", query=query, headers=headers)


def look_up(h, body: bytes) -> Exchange:
    return Exchange(h.app, "/v1/streams/lookup", body=body)


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("nothing should reach the child")


async def resumed(received: Received, child: Connection) -> None:
    offset = int(received.line.split("from=")[1].split()[0])
    await child.begin("text/event-stream")
    for at in range(offset, len(STREAM), 7):
        await child.say(STREAM[at : at + 7])
    await child.finish()


# Resume -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 20, len(STREAM)])
async def test_a_stream_is_resumed_from_any_byte_of_it_untouched(house, offset):
    async with house(resumed) as h:
        child_at(h)
        exchange = await get(h, b"conv_id=c&from=%d" % offset).end()

        assert (exchange.status, exchange.body) == (200, STREAM[offset:])
        assert exchange.ended_well
        assert exchange.header(b"content-type") == b"text/event-stream"
        assert exchange.header(b"x-accel-buffering") == b"no"
        assert h.scheduler.was_seen == [("", "c", "key-c")]
        assert h.scheduler.leases == []
        [received] = h.child.received
        assert received.line == f"GET /v1/stream?conv_id=key-c&from={offset} HTTP/1.1"


async def test_the_id_may_stand_in_the_header(house):
    async with house(resumed) as h:
        child_at(h)
        exchange = await get(h, b"", (b"x-conversation-id", b"c")).end()

    assert exchange.body == STREAM


async def test_an_id_is_decoded_as_queries_are(house):
    async with house(resumed) as h:
        child_at(h, "a b/c::d")
        exchange = await get(h, b"conv_id=a+b%2Fc%3A%3Ad").end()

    assert exchange.body == STREAM


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (b"", "Missing conversation id in path"),
        (b"conv_id=", "Missing conversation id in path"),
        (b"conv_id=c&from=-1", "Invalid 'from' offset"),
        (b"conv_id=c&from=x", "Invalid 'from' offset"),
        (b"conv_id=c&from=" + b"9" * 30, "Invalid 'from' offset"),
        (b"conv_id=%ff", "cannot be read"),
    ],
)
async def test_what_is_no_question_is_refused_in_llama_cpps_words(house, query, text):
    async with house(never_asked) as h:
        exchange = await get(h, query).end()

    assert exchange.status == 400
    assert text in exchange.json["error"]["message"]


@pytest.mark.parametrize("query", [b"conv_id=nobody", b"conv_id=" + b"x" * 300])
async def test_an_unknown_conversation_is_gone(house, query):
    async with house(never_asked) as h:
        exchange = await get(h, query).end()

    assert exchange.status == 410
    assert exchange.json["error"]["code"] == "conversation_lost"
    assert exchange.header(b"x-should-retry") == b"false"


async def test_one_that_waits_for_its_model_is_worth_asking_for_again(house):
    async with house(never_asked) as h:
        h.scheduler.states["", "c"] = StreamState("c", "waiting")
        exchange = await get(h, b"conv_id=c").end()

    assert exchange.status == 503
    assert exchange.json["error"]["message"] == "Stream owner model is loading, retry later"
    assert exchange.header(b"retry-after") == b"1"


async def unknown(received: Received, child: Connection) -> None:
    await child.answer(b'{"error":{}}', status="404 Not Found")


@pytest.mark.parametrize(("state", "status"), [("generating", 503), ("ended", 410)])
async def test_a_child_that_does_not_know_it_has_not_begun_it_yet_or_has_forgotten_it(
    house, state, status
):
    async with house(unknown) as h:
        child_at(h, state=state)
        exchange = await get(h, b"conv_id=c").end()

    assert exchange.status == status


async def test_a_childs_own_refusal_is_passed_on(house):
    told = b'{"error":{"code":400,"message":"Stream offset lost, please restart"}}'

    async def lost(received: Received, child: Connection) -> None:
        await child.answer(told, status="400 Bad Request")

    async with house(lost) as h:
        child_at(h, state="ended")
        exchange = await get(h, b"conv_id=c").end()

    assert (exchange.status, exchange.body) == (400, told)


async def test_a_stream_whose_instance_has_gone_is_served_from_its_file(house, tmp_path):
    file = tmp_path / "kept"
    file.write_bytes(STREAM)
    async with house(never_asked) as h:
        kept_at(h, file)
        whole = await get(h, b"conv_id=c").end()
        rest = await get(h, b"conv_id=c&from=20").end()
        nothing = await get(h, b"conv_id=c&from=1000").end()

    assert (whole.status, whole.body) == (200, STREAM)
    assert whole.header(b"content-type") == b"text/event-stream"
    assert rest.body == STREAM[20:]
    assert (nothing.status, nothing.body) == (200, b"")


async def test_what_a_childs_buffer_had_lost_already_is_not_made_up(house, tmp_path):
    file = tmp_path / "kept"
    file.write_bytes(STREAM[10:])
    async with house(never_asked) as h:
        kept_at(h, file, begin=10)
        early = await get(h, b"conv_id=c&from=9").end()
        late = await get(h, b"conv_id=c&from=10").end()

    assert early.status == 400
    assert early.json["error"]["message"] == "Stream offset lost, please restart"
    assert late.body == STREAM[10:]


async def test_a_file_that_has_expired_meanwhile_is_gone(house, tmp_path):
    file = tmp_path / "kept"
    file.write_bytes(STREAM)
    async with house(never_asked) as h:
        kept_at(h, file)
        file.unlink()
        exchange = await get(h, b"conv_id=c").end()

    assert exchange.status == 410


@pytest.mark.parametrize("cleanly", [False, True])
async def test_an_instance_that_goes_under_its_reader_has_left_the_rest_in_a_file(
    house, tmp_path, cleanly
):
    file = tmp_path / "kept"
    file.write_bytes(STREAM)

    async def half(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(STREAM[2:25])
        kept_at(h, file)
        if cleanly:
            await child.finish()

    async with house(half) as h:
        child_at(h, state="ended")
        exchange = await get(h, b"conv_id=c&from=2").end()

    assert exchange.body == STREAM[2:]
    assert exchange.ended_well


async def test_a_stream_that_breaks_off_does_not_look_whole(house):
    async def half(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(STREAM[:25])

    async with house(half) as h:
        child_at(h)
        exchange = await get(h, b"conv_id=c").end()

    assert b"model_died" in exchange.body
    assert b"[DONE]" not in exchange.body
    assert h.scheduler.was_seen == []


async def test_a_reader_that_leaves_has_not_seen_it(house):
    async def begins(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(STREAM[:25])
        await child.until_closed()

    async with house(begins) as h:
        child_at(h)
        exchange = get(h, b"conv_id=c")
        await until(lambda: exchange.body)
        exchange.leave()
        await exchange.end()
        await until(lambda: h.child.ended == 1)

        assert h.scheduler.was_seen == []


async def test_no_more_read_from_one_instance_than_it_has_threads_for(house):
    go_on = asyncio.Event()

    async def begins(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(STREAM)
        await go_on.wait()
        await child.finish()

    async with house(begins) as h:
        child_at(h)
        readers = [get(h, b"conv_id=c") for _ in range(MOST_READERS)]
        await until(lambda: all(reader.body for reader in readers))
        more = await get(h, b"conv_id=c").end()
        go_on.set()
        for reader in readers:
            await reader.end()
        again = await get(h, b"conv_id=c").end()

    assert (more.status, again.status) == (503, 200)
    assert more.json["error"]["code"] == "conversation_waiting"


# Stop ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [b"conv_id=c", b"conv_id=nobody", b"conv_id=" + b"x" * 300])
async def test_a_stop_is_answered_204_whatever_the_id(house, query):
    async with house(never_asked) as h:
        exchange = Exchange(h.app, "/v1/stream", method="DELETE", body=b"", query=query)
        await exchange.end()

        assert (exchange.status, exchange.body) == (204, b"")
        assert h.scheduler.stopped == [] if len(query) > 200 else [("", query[8:].decode())]


async def test_a_stop_that_nobody_can_hear_is_an_error(house):
    async with house(never_asked) as h:
        h.scheduler.away = True
        exchange = Exchange(h.app, "/v1/stream", method="DELETE", body=b"", query=b"conv_id=c")
        await exchange.end()

    assert exchange.status == 503


async def test_other_methods_are_not_allowed(house):
    async with house(never_asked) as h:
        exchange = await Exchange(h.app, "/v1/stream", body=b"{}").end()

    assert exchange.status == 405
    assert exchange.header(b"allow") == b"GET, DELETE"


# Lookup -------------------------------------------------------------------------------------------


async def holds(received: Received, child: Connection) -> None:
    ids = json.loads(received.body)["conversation_ids"]
    told = [
        {
            "conversation_id": id,
            "is_done": True,
            "total_bytes": 7,
            "started_at": 1,
            "completed_at": 2,
        }
        for id in (*ids, "another")
    ]
    await child.answer(json.dumps(told).encode())


async def test_a_lookup_tells_of_children_files_and_those_that_wait_by_the_clients_ids(
    house, tmp_path
):
    file = tmp_path / "kept"
    file.write_bytes(STREAM)
    async with house(holds) as h:
        child_at(h, "in-child", "ended")
        kept_at(h, file, "in-file", begin=10)
        h.scheduler.states["", "waits"] = StreamState("waits", "waiting", began=4)
        ids = ["in-child", "in-file", "waits", "nobody", "", "\n"]
        exchange = await look_up(h, json.dumps({"conversation_ids": ids}).encode()).end()

    assert exchange.status == 200
    told = {held.pop("conversation_id"): tuple(held.values()) for held in exchange.json}
    assert told == {
        "in-child": (True, 7, 1, 2),
        "in-file": (True, 10 + len(STREAM), 5, 9),
        "waits": (False, 0, 4, 0),
    }


DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"{}", b'{"conversation_ids":[1]}', DEEP])
async def test_what_is_no_lookup_finds_nothing(house, body):
    async with house(never_asked) as h:
        exchange = await look_up(h, body).end()

    assert (exchange.status, exchange.json) == (200, [])


async def test_more_than_may_be_asked_at_once_are_refused(house):
    async with house(never_asked) as h:
        ids = ["x"] * (MOST_LOOKED_UP + 1)
        exchange = await look_up(h, json.dumps({"conversation_ids": ids}).encode()).end()

    assert exchange.status == 400


async def test_nor_is_a_body_read_that_asks_for_many_more(house, monkeypatch):
    def read(_body: object) -> None:
        raise AssertionError("it takes twenty times its size")

    monkeypatch.setattr("proxy.streams._lookup", read)
    async with house(never_asked) as h:
        body = b'{"conversation_ids":["x"]}' + b" " * LONGEST_LOOKUP
        exchange = await look_up(h, body).end()

    assert (exchange.status, exchange.json["error"]["code"]) == (400, "invalid_request")


async def garbage(received: Received, child: Connection) -> None:
    await child.answer(b"garbage")


async def too_deep(received: Received, child: Connection) -> None:
    await child.answer(b'[{"x":' + b"[" * 5000 + b"]" * 5000 + b"}]")


async def silence(received: Received, child: Connection) -> None:
    await child.until_closed()


@pytest.mark.parametrize("script", [garbage, too_deep, silence])
async def test_of_a_child_that_does_not_say_only_is_told_what_is_known_without_it(house, script):
    async with house(script) as h:
        child_at(h, "ended", "ended")
        child_at(h, "live", "generating", began=3)
        exchange = await look_up(h, b'{"conversation_ids":["ended","live"]}').end()

    [held] = exchange.json
    assert tuple(held.values()) == ("live", False, 0, 3, 0)
