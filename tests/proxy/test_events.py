"""GET /models/sse: a snapshot, then what happens, for any number of readers and none delayed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from django.db import OperationalError

from proxy import events
from proxy.event_stream import KEEP_ALIVE
from proxy.relay import AnswerCut

from .asking import Exchange
from .fakes import Connection, Received


async def unused(received: Received, child: Connection) -> None:
    raise AssertionError("nothing is asked of a child")


class NoDownloads:
    async def entries(self) -> dict[str, Any]:
        return {}

    async def finished(self, names: Any) -> dict[str, bool]:
        return {}

    async def close(self) -> None:
        pass


@pytest.fixture
def told(house, monkeypatch):
    """`async with told() as h`: a gateway whose list of models is one entry."""
    monkeypatch.setattr(events, "ASK_AGAIN_SECONDS", 0.01)

    @contextlib.asynccontextmanager
    async def opened(**settings: Any):
        async with house(unused, **settings) as h:

            async def listed(caller: object) -> list[Any]:
                return [{"id": "m"}]

            h.app._downloads = NoDownloads()
            h.app._listed = listed
            yield h

    return opened


def reader(h: Any, **headers: str) -> Exchange:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Exchange(h.app, "/models/sse", method="GET", body=b"", headers=sent)


def frames(exchange: Exchange) -> list[dict[str, Any]]:
    parts = [part for part in exchange.body.split(b"\n\n") if b"data: " in part]
    return [json.loads(part.split(b"data: ", 1)[1]) for part in parts]


def ids(exchange: Exchange) -> list[str]:
    lines = exchange.body.decode().splitlines()
    return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - there is no event for what a test looks at
            await asyncio.sleep(0.002)


async def test_a_reader_hears_all_that_is_and_then_what_happens(told):
    async with told() as h:
        exchange = reader(h)
        await until(lambda: frames(exchange))
        h.scheduler.happen("m", queued=True)
        h.scheduler.happen("m", measuring=True)
        await until(lambda: len(frames(exchange)) == 3)
        exchange.leave()
        await exchange.end()

    first, *later = frames(exchange)
    assert first == {"event": "snapshot", "model": "*", "data": {"models": [{"id": "m"}]}}
    assert [event["data"]["detail"] for event in later] == ["queued", "measuring"]
    assert ids(exchange) == ["one.0", "one.1", "one.2"]
    assert exchange.header(b"content-type") == b"text/event-stream; charset=utf-8"
    assert exchange.header(b"x-accel-buffering") == b"no"


async def test_who_says_where_it_left_off_hears_what_it_missed(told):
    async with told() as h:
        other = reader(h)
        await until(lambda: frames(other))
        for _ in range(4):
            h.scheduler.happen("m", queued=True)
        await until(lambda: len(frames(other)) == 5)
        exchange = reader(h, last_event_id="one.2")
        await until(lambda: len(frames(exchange)) == 2)
        for each in (other, exchange):
            each.leave()
            await each.end()

    assert ids(exchange) == ["one.3", "one.4"]
    assert h.scheduler.subscriptions == 1


@pytest.mark.parametrize(
    "last", ["other.0", "one.9", "one.", "nonsense", "one.x", "one." + "9" * 99]
)
async def test_who_names_what_nobody_knows_hears_everything(told, last):
    async with told() as h:
        exchange = reader(h, last_event_id=last)
        await until(lambda: frames(exchange))
        exchange.leave()
        await exchange.end()

    assert frames(exchange)[0]["event"] == "snapshot"


async def test_a_slow_reader_delays_nobody_and_hears_everything_again(told, monkeypatch):
    async with told() as h:
        slow, quick = reader(h), reader(h)
        await until(lambda: frames(slow) and frames(quick))
        slow.reading.clear()
        for number in range(600):
            h.scheduler.happen("m", queued=number % 2 == 0)
            if number % 50 == 0:
                await asyncio.sleep(0)
        await until(lambda: ids(quick)[-1] == "one.600")
        slow.reading.set()
        await until(lambda: ids(slow)[-1] == "one.600")
        for each in (slow, quick):
            each.leave()
            await each.end()

    assert len(frames(slow)) < 300
    assert frames(slow)[-1]["event"] == "snapshot"


async def test_another_scheduler_is_told_as_a_new_beginning(told):
    async with told() as h:
        exchange = reader(h)
        await until(lambda: frames(exchange))
        h.scheduler.break_off("two")
        await until(lambda: len(frames(exchange)) == 2)
        exchange.leave()
        await exchange.end()

    assert [event["event"] for event in frames(exchange)] == ["snapshot", "snapshot"]
    assert ids(exchange) == ["one.0", "two.0"]


async def test_while_nothing_happens_a_comment_keeps_the_connection(told, monkeypatch):
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.02)
    async with told() as h:
        exchange = reader(h)
        await until(lambda: exchange.body.count(KEEP_ALIVE) >= 2)
        exchange.leave()
        await exchange.end()

    assert KEEP_ALIVE.startswith(b":")


async def test_a_stop_ends_the_stream_well_and_at_once(told):
    async with told() as h:
        exchange = reader(h)
        await until(lambda: frames(exchange))

        await h.app.drain(30.0)
        await exchange.end()

    assert exchange.messages[-1].get("more_body", False) is False


async def test_without_a_scheduler_it_is_refused_in_the_dialect(told, monkeypatch):
    async with told() as h:

        async def never():
            raise events.ConnectionLost
            yield

        h.scheduler.happenings = never
        exchange = await reader(h).end()

    assert exchange.status == 503
    assert exchange.json["error"]["code"] == "scheduler_unavailable"


async def test_a_reader_that_never_reads_is_cut_and_holds_nothing(told, monkeypatch):
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.01)
    async with told() as h:
        exchange = reader(h)
        await until(lambda: frames(exchange))
        exchange.reading.clear()
        with pytest.raises(AnswerCut):
            await exchange.end()

        await h.app.drain(30.0)


async def test_a_database_that_fails_for_a_moment_ends_no_news_of_downloads(told, monkeypatch):
    monkeypatch.setattr(events, "LOOK_AT_DOWNLOADS_SECONDS", 0.01)
    looks = 0

    class Failing(NoDownloads):
        async def entries(self) -> dict[str, Any]:
            nonlocal looks
            looks += 1
            if looks < 3:
                raise OperationalError("locked")
            progress = {"value": 0.1, "files": {}}
            coming = {"d": {"status": {"value": "downloading", "progress": progress}}}
            return coming if looks > 4 else {}

    async with told() as h:
        h.app._downloads = Failing()
        exchange = reader(h)
        await until(lambda: len(frames(exchange)) >= 2)
        exchange.leave()
        await exchange.end()

    assert frames(exchange)[1]["data"] == {"status": "downloading"}
