"""Models are pulled: what is told of a download, whoever listens."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from models_registry.downloads import asking
from models_registry.models import Download, Preset
from proxy.downloads import Downloads
from proxy.ollama import pulling
from scheduler.protocol import Refused

from ..asking import Exchange
from .changing import DIGEST, asked, lines, never_asked, statuses, waited

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", ["base", "base:latest", "registry.ollama.ai/library/base"])
async def test_a_pull_of_what_is_there_takes_no_admin_key(house, name: str) -> None:
    exchange = await asked(house, "/api/pull", {"model": name})

    assert exchange.header(b"content-type") == b"application/x-ndjson"
    assert lines(exchange) == [{"status": "pulling manifest"}, {"status": "success"}]
    assert not await Download.objects.aexists()


async def test_a_pull_that_does_not_stream_is_one_object(house) -> None:
    exchange = await asked(house, "/api/pull", {"name": "base", "stream": False})

    assert exchange.json == {"status": "success"}
    assert exchange.header(b"content-type").startswith(b"application/json")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("llama3.2", "ollama", "llama3.2"),
        ("llama3.2:1b", "ollama", "llama3.2:1b"),
        ("registry.ollama.ai/library/llama3.2:1b", "ollama", "llama3.2:1b"),
        ("someone/model:tag", "ollama", "someone/model:tag"),
        ("hf.co/team/m", "hub", "team/m"),
        ("hf.co/team/m:latest", "hub", "team/m"),
        ("huggingface.co/team/m:Q8_0", "hub", "team/m:Q8_0"),
    ],
)
def test_a_name_says_where_it_is_fetched_from(name: str, kind: str, target: str) -> None:
    assert pulling.target_of(name) == (kind, target)


@sync_to_async
def patiently(change: Callable[[], Any]) -> Any:
    """The tests' database is in memory: two threads cannot be at one table at once."""
    for _ in range(200):
        try:
            return change()
        except OperationalError:
            time.sleep(0.01)
    return change()


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which downloads have been asked for, without a look at the database."""
    begin, Pulling.begun = pulling.begin, []

    def beginning(name: str, asker: Any) -> int:
        download = begin(name, asker)
        Pulling.begun.append(download)
        return download

    monkeypatch.setattr(pulling, "begin", beginning)


class Pulling:
    """A pull under way, whose download the test does."""

    begun: list[int]

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    async def row(self) -> Download:
        await waited(lambda: self.begun, "a download is asked for")
        return await patiently(lambda: Download.objects.get(pk=self.begun[0]))

    async def becomes(self, **fields: Any) -> None:
        row = await self.row()
        await patiently(lambda: Download.objects.filter(pk=row.pk).update(**fields))

    async def until(self, status: str) -> None:
        await waited(lambda: status.encode() in self.exchange.body, f"{status} is told")


def files(done: int) -> list[dict[str, Any]]:
    sound = {"checksum": DIGEST, "path": "m.gguf", "done": done, "size": 1000}
    return [sound, {"checksum": "", "path": "folder/mmproj.gguf", "done": 0, "size": None}]


async def test_a_pull_tells_how_far_it_is_until_it_is_there(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        body = json.dumps({"model": "llama3.2:1b", "insecure": True}).encode()
        exchange = Exchange(h.app, "/api/pull", body=body, headers=admin)
        pull = Pulling(exchange)
        await pull.becomes(state="running", files=files(250))
        await pull.until('"completed":250')
        await pull.becomes(files=files(1000))
        await pull.until('"completed":1000')
        await patiently(lambda: Preset.objects.create(name="llama3.2:1b"))
        await pull.becomes(state="done", name="llama3.2:1b")
        await exchange.end()

    row = await pull.row()
    assert (row.kind, row.target) == ("ollama", "llama3.2:1b")
    assert row.asked_by.startswith("the admin key robot")
    short = f"pulling {DIGEST[7:19]}"
    assert statuses(exchange)[0] == "pulling manifest"
    told = [line for line in lines(exchange) if line["status"] == short]
    assert told == [
        {"status": short, "digest": DIGEST, "total": 1000, "completed": done}
        for done in (250, 1000)
    ]
    assert {"status": "pulling mmproj.gguf", "completed": 0} in lines(exchange)
    assert statuses(exchange)[-3:] == ["verifying sha256 digest", "writing manifest", "success"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"state": "failed", "error": "404: there is no such model"}, "there is no such model"),
        ({"state": "cancelled"}, "cancelled"),
        ({"state": "paused"}, "paused"),
        ({"state": "done", "name": "x", "error": "the name x is taken"}, "the name x is taken"),
    ],
)
async def test_a_pull_that_comes_to_nothing_ends_in_an_error(
    house, admin, fields: dict[str, Any], told: str
) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        exchange = Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin)
        pull = Pulling(exchange)
        await pull.until("pulling manifest")
        await pull.becomes(**fields)
        await exchange.end()

    assert exchange.status == 200
    assert told in lines(exchange)[-1]["error"]
    assert "success" not in statuses(exchange)


async def test_a_pull_that_fails_without_a_stream_is_an_error_status(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        body = b'{"model": "x", "stream": false}'
        exchange = Exchange(h.app, "/api/pull", body=body, headers=admin)
        await Pulling(exchange).becomes(state="failed", error="no room")
        await exchange.end()

    assert exchange.status == 502
    assert "no room" in exchange.json["error"]


async def test_two_pulls_share_a_download_and_a_paused_one_goes_on(house, admin) -> None:
    row = await sync_to_async(asking.create)("ollama", "x", asked_by="somebody")
    await sync_to_async(asking.pause)(row.pk)
    async with house(never_asked, downloads=Downloads()) as h:
        pulls = [
            Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin) for _ in range(2)
        ]
        for each in pulls:
            await Pulling(each).until("pulling manifest")
        state = (await patiently(lambda: Download.objects.get(pk=row.pk))).state
        await patiently(lambda: Preset.objects.create(name="x:latest"))
        await patiently(lambda: Download.objects.update(state="done", name="x:latest"))
        for each in pulls:
            await each.end()

    assert state == "queued"
    assert await Download.objects.acount() == 1
    assert [statuses(each)[-1] for each in pulls] == ["success", "success"]


async def test_who_stops_listening_leaves_the_download_as_it_is(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        exchange = Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin)
        await Pulling(exchange).until("pulling manifest")
        exchange.leave()
        await exchange.end()

    row = await Download.objects.aget()
    assert (row.state, row.wanted) == ("queued", "running")


async def test_a_stop_of_the_gateway_is_told_in_a_last_line(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        exchange = Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin)
        await Pulling(exchange).until("pulling manifest")
        await h.app.drain(5.0)
        await exchange.end()

    assert lines(exchange)[-1]["code"] == "shutting_down"


@pytest.mark.parametrize(("failures", "code"), [(1, "request_cancelled"), (99, "internal_error")])
async def test_a_database_that_fails_for_a_moment_ends_no_pull(
    monkeypatch: pytest.MonkeyPatch, failures: int, code: str
) -> None:
    monkeypatch.setattr(pulling, "LOOK_SECONDS", 0.0)
    left = iter(range(failures))

    async def do(look: Callable[[], Any]) -> Any:
        if next(left, None) is not None:
            raise OperationalError("database is locked")
        return await sync_to_async(look)()

    with pytest.raises(Refused) as caught:
        _ = [step async for step in pulling.steps_of(1, do)]

    assert caught.value.code == code
