"""The log of a model over a WebSocket: to whom, from where on, and when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from models_registry.models import Preset
from routerproj.model_page import log_socket
from routerproj.model_page.access import may_see_runs
from routerproj.model_page.log_socket import LogSockets
from routerproj.socket_sessions import person_of
from scheduler.run_logs import run_path

from ..management import session_of, staff

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 10.0
Who = Callable[[], Awaitable[str | None]]


async def anna() -> str | None:
    return "anna"


class Client:
    def __init__(self) -> None:
        self.to: asyncio.Queue[Any] = asyncio.Queue()
        self.of: asyncio.Queue[Any] = asyncio.Queue()
        self.to.put_nowait({"type": "websocket.connect"})

    async def heard(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await self.of.get()

    async def lines(self) -> list[str]:
        told = json.loads((await self.heard())["text"])
        return [piece["lines"] for piece in told["pieces"]]


@asynccontextmanager
async def following(
    logs: Path, pk: int, who: Who = anna
) -> AsyncIterator[tuple[Client, LogSockets, asyncio.Task[None]]]:
    client, sockets = Client(), LogSockets(logs, look_seconds=0.01)
    scope = {"path": f"/admin/model/{pk}/log/"}
    task = asyncio.create_task(sockets(scope, client.to.get, client.of.put, who))
    yield client, sockets, task
    async with asyncio.timeout(PATIENCE):
        await task


def print_line(logs: Path, preset: Preset, day: int, line: str) -> None:
    path = run_path(logs, preset.name, datetime(2026, 1, day, tzinfo=UTC), day)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(f"{line}\n")


async def test_the_last_lines_come_first_and_then_what_is_printed(
    preset: Preset, tmp_path: Path
) -> None:
    print_line(tmp_path, preset, 1, "one")
    async with following(tmp_path, preset.pk) as (client, _, _task):
        assert (await client.heard())["type"] == "websocket.accept"
        assert await client.lines() == ["one\n"]
        print_line(tmp_path, preset, 1, "two \x1b[2J ck_abcdefgh_S3cretS3cretS3cret")
        assert await client.lines() == ["two ?[2J ck_abcdefgh_[redacted]\n"]
        print_line(tmp_path, preset, 2, "of the next run")
        assert await client.lines() == ["of the next run\n"]
        client.to.put_nowait({"type": "websocket.disconnect", "code": 1001})


async def test_it_ends_when_the_gateway_stops(preset: Preset, tmp_path: Path) -> None:
    async with following(tmp_path, preset.pk) as (client, sockets, _task):
        await client.heard()
        await client.heard()
        sockets.close()
        assert await client.heard() == {"type": "websocket.close", "code": 1012}


async def test_it_ends_with_the_session(
    preset: Preset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_socket, "ASK_WHO_SECONDS", 0.01)
    known: list[str | None] = ["anna"]

    async def who() -> str | None:
        return known[0]

    async with following(tmp_path, preset.pk, who) as (client, _, _task):
        await client.heard()
        await client.heard()
        known[0] = None
        assert await client.heard() == {"type": "websocket.close", "code": 1008}


async def test_who_does_not_read_is_let_go(
    preset: Preset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_socket, "SLOW_READER_SECONDS", 0.01)
    sent: list[Any] = []
    never = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "websocket.send":
            await never.wait()

    client, sockets = Client(), LogSockets(tmp_path)
    async with asyncio.timeout(PATIENCE):
        await sockets({"path": f"/admin/model/{preset.pk}/log/"}, client.to.get, send, anna)

    assert sent[-1] == {"type": "websocket.close", "code": 1013}


async def test_nobody_and_no_preset_are_refused(preset: Preset, tmp_path: Path) -> None:
    async def nobody() -> None:
        return None

    for pk, who in ((preset.pk, nobody), (preset.pk + 1, anna)):
        async with following(tmp_path, pk, who) as (client, _, _task):
            assert await client.heard() == {"type": "websocket.close", "code": 1008}


@pytest.mark.parametrize(
    ("rights", "may"),
    [
        (("models_registry.view_preset", "scheduler.view_instancerecord"), True),
        (("models_registry.view_preset",), False),
        (("scheduler.view_instancerecord",), False),
    ],
)
def test_it_takes_the_rights_to_view_presets_and_instances(
    db: None, rights: tuple[str, ...], may: bool
) -> None:
    client = session_of(staff(*rights))
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    headers = {"host": "gpu:8080", "origin": "http://gpu:8080", "cookie": cookie}
    scope = {"headers": [(key.encode(), value.encode()) for key, value in headers.items()]}

    found = async_to_sync(person_of)(scope, ("gpu",), may_see_runs)

    assert (found is not None) is may
