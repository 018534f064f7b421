"""The WebSocket of what happens to models tells what GET /models/sse tells."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from proxy import events

from .asking import until
from .socket_house import SocketHouse, end_of, refusal_of, socket_house
from .test_events import NoDownloads
from .test_sockets import OneKey

EVENTS = "/models/ws"
SNAPSHOT = {"event": "snapshot", "model": "*", "data": {"models": [{"id": "m"}]}}


@contextlib.asynccontextmanager
async def told(folder: Path, **options: Any) -> AsyncIterator[SocketHouse]:
    async with socket_house(folder, **options) as house:

        async def listed(caller: object) -> list[Any]:
            return [{"id": "m"}]

        house.app._downloads = NoDownloads()  # type: ignore[assignment]
        house.app._listed = listed  # type: ignore[method-assign]
        yield house


async def heard(client: Any) -> dict[str, Any]:
    async with asyncio.timeout(20):
        message = await client.recv()
    assert isinstance(message, str)
    found: dict[str, Any] = json.loads(message)
    return found


async def test_everything_as_it_is_then_what_happens(tmp_path: Path) -> None:
    async with told(tmp_path) as house, house.connect(EVENTS) as client:
        assert await heard(client) == {"id": "one.0", **SNAPSHOT}
        house.scheduler.happen("m", queued=True)
        told_later = await heard(client)

        assert told_later["id"] == "one.1"
        assert told_later["event"] == "status_change"
        assert told_later["data"] == {"status": "unloaded", "detail": "queued"}
        assert house.scheduler.asked == []


async def test_activity_is_told_to_those_who_ask_for_it(tmp_path: Path) -> None:
    async with (
        told(tmp_path) as house,
        house.connect(EVENTS) as other,
        house.connect(EVENTS + "?activity=1") as client,
    ):
        assert [(await heard(each))["event"] for each in (client, other)] == ["snapshot"] * 2
        house.scheduler.be_active()
        house.scheduler.happen("m", queued=True)

        assert await heard(client) == {"event": "activity", "model": "*"}
        assert [(await heard(each))["id"] for each in (client, other)] == ["one.1"] * 2


async def test_a_download_whose_bytes_stand_still_is_told_as_activity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LOOK_AT_DOWNLOADS_SECONDS", 0.01)
    status = {"value": "downloading", "progress": {"value": 0.1, "files": {}}}
    coming = {"d": {"status": status}}
    looked = asyncio.Event()

    class Standing(NoDownloads):
        async def entries(self) -> dict[str, Any]:
            looked.set()
            return dict(coming)

    async with told(tmp_path) as house:
        house.app._downloads = Standing()  # type: ignore[assignment]
        async with house.connect(EVENTS + "?activity=1") as client:
            assert (await heard(client))["event"] == "snapshot"
            await looked.wait()
            coming["d"] = {"status": {**status, "detail": "paused"}}
            assert await heard(client) == {"event": "activity", "model": "*"}


async def test_what_a_reader_missed_is_told_by_the_id(tmp_path: Path) -> None:
    async with told(tmp_path) as house:
        async with house.connect(EVENTS) as client:
            await heard(client)
            for queued in (True, False, True):
                house.scheduler.happen("m", queued=queued)
            assert [(await heard(client))["id"] for _ in range(3)] == ["one.1", "one.2", "one.3"]

        async with house.connect(EVENTS + "?last_event_id=one.1") as client:
            assert [(await heard(client))["id"] for _ in range(2)] == ["one.2", "one.3"]
        async with house.connect(EVENTS + "?last_event_id=other.1") as client:
            assert (await heard(client))["event"] == "snapshot"


async def test_what_a_reader_says_is_nothing_to_us_and_its_leaving_is_seen(tmp_path: Path) -> None:
    async with told(tmp_path) as house:
        async with house.connect(EVENTS) as client:
            await heard(client)
            for _ in range(50):
                await client.send("hello?")
            house.scheduler.happen("m", queued=True)
            assert (await heard(client))["id"] == "one.1"
            heard_by = house.app._events
            assert heard_by is not None
            assert len(heard_by._readers) == 1
        await until(lambda: not heard_by._readers)


async def test_a_reader_that_does_not_read_delays_nobody(tmp_path: Path) -> None:
    async with (
        told(tmp_path) as house,
        house.connect(EVENTS, max_queue=1, close_timeout=0.1) as slow,
        house.connect(EVENTS) as quick,
    ):
        await heard(quick)
        for number in range(events.UNREAD * 3):
            house.scheduler.happen("m", queued=bool(number % 2))
            if number % 50 == 0:
                await heard(quick)

        assert slow.close_code is None


async def test_a_stop_ends_it_at_once(tmp_path: Path) -> None:
    async with told(tmp_path) as house, house.connect(EVENTS) as client:
        await heard(client)
        await house.wiring.drain(600.0)

        assert (await end_of(client))[0] == 1012


async def test_a_key_is_asked_for(tmp_path: Path) -> None:
    async with told(tmp_path, keys=OneKey()) as house:
        status, _, body = await refusal_of(house.connect(EVENTS))
        assert (status, json.loads(body)["error"]["message"]) == (401, "An API key is needed.")
        async with house.connect(EVENTS, {"Authorization": "Bearer good"}) as client:
            await heard(client)
        offered = ["openai-insecure-api-key.good", "corral"]
        status, _, _ = await refusal_of(house.connect(EVENTS + "?api_key=good"))
        assert status == 401
        async with house.connect(EVENTS, subprotocols=offered) as client:
            await heard(client)


async def test_plain_http_is_told_that_it_is_a_websocket(tmp_path: Path) -> None:
    from .asking import Exchange

    async with told(tmp_path) as house:
        for path in (EVENTS, "/v1/realtime"):
            got = await Exchange(house.app, path, method="GET", body=b"").end()
            assert (got.status, got.json["error"]["code"]) == (426, "upgrade_required")
            assert got.header(b"upgrade") == b"websocket"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "ASK_AGAIN_SECONDS", 0.01)


def _log_out(session: str) -> None:
    SessionStore(session).flush()


def _deactivate(session: str) -> None:
    User.objects.update(is_active=False)


def _take_from_the_staff(session: str) -> None:
    User.objects.update(is_staff=False)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", [_log_out, _deactivate, _take_from_the_staff])
async def test_a_session_that_ends_ends_what_is_open_by_it(tmp_path: Path, end: Any) -> None:
    session = await sync_to_async(_a_session)()
    async with told(tmp_path, keys=OneKey(), guard={"django_hosts": ("127.0.0.1",)}) as house:
        at = f"http://127.0.0.1:{house.port}"
        headers = {"Cookie": f"sessionid={session}", "Origin": at}
        async with house.connect(EVENTS, headers) as client:
            assert (await heard(client))["event"] == "snapshot"
            await sync_to_async(end)(session)
            code, reason = await end_of(client)

    assert code == 1008
    assert reason == "invalid_api_key: The session of the admin has ended: log in again."


def _a_session() -> str:
    client = Client()
    client.force_login(User.objects.create_user("ann", password="x", is_staff=True))
    return str(client.cookies["sessionid"].value)
