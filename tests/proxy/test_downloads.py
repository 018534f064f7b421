"""Models that are being fetched: listed, told to who asks for them, begun and deleted by the
requests of llama.cpp's own clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from models_registry.models import Alias, Download, ModelFile, Preset
from proxy.downloads import Downloads
from proxy.keys import create_key
from proxy.scopes import Scope
from scheduler.protocol import Refused, SnapshotState
from tests.django.registry_rows import FakeScheduler, use_scheduler

from .asking import Exchange, chat
from .fakes import Connection, Received

pytestmark = pytest.mark.django_db(transaction=True)


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("nothing here asks a child")


def is_there(path: Path) -> bool:
    return path.exists()


def coming(**fields: Any) -> Download:
    return Download.objects.create(
        **{
            "target": "team/m",
            "name": "team/m:Q8_0",
            "state": "running",
            "bytes_done": 250,
            "bytes_total": 1000,
            "bytes_per_second": 50.0,
            "files": [{"url": "https://hub/m", "done": 250, "size": 1000}],
            **fields,
        }
    )


def key(scope: str = Scope.ADMIN) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + create_key("robot", scopes=[scope]).encode())]


admins = sync_to_async(key)


async def asked(
    house: Any, method: str, *, body: bytes = b"", query: bytes = b"", headers: Any = ()
) -> Exchange:
    async with house(never_asked, downloads=Downloads()) as h:
        exchange = Exchange(
            h.app, "/models", method=method, body=body, query=query, headers=headers
        )
        return await exchange.end()


async def test_the_list_shows_how_far_a_download_is(house) -> None:
    await sync_to_async(coming)()
    async with house(never_asked, downloads=Downloads()) as h:
        h.scheduler.live = SnapshotState(1, 1, 4, False, [], [], [])
        listed = await Exchange(h.app, "/models", method="GET").end()
        one = await Exchange(h.app, "/v1/models/team/m:Q8_0", method="GET").end()

    [entry] = listed.json["data"]
    assert (entry["id"], entry["source"], entry["can_remove"]) == ("team/m:Q8_0", "cache", True)
    assert entry["architecture"]["input_modalities"] == ["text"]
    assert entry["status"] == {
        "value": "downloading",
        "progress": {
            "value": 0.25,
            "done": 250,
            "total": 1000,
            "files": {"https://hub/m": {"done": 250, "total": 1000}},
            "remaining_seconds": 15.0,
        },
    }
    assert one.json == entry


@pytest.mark.parametrize("state", ["queued", "paused"])
async def test_one_that_does_not_run_is_listed_with_its_state(house, state: str) -> None:
    await sync_to_async(coming)(state=state)
    async with house(never_asked, downloads=Downloads()) as h:
        h.scheduler.live = SnapshotState(1, 1, 4, False, [], [], [])
        listed = await Exchange(h.app, "/models", method="GET").end()

    assert listed.json["data"][0]["status"]["detail"] == state


@pytest.mark.parametrize("name", ["team/m:Q8_0", "team/m"])
async def test_who_asks_for_a_model_that_is_coming_is_told_when_to_come_back(
    house, name: str
) -> None:
    await sync_to_async(coming)()
    async with house(never_asked, downloads=Downloads()) as h:
        h.scheduler.refusal = Refused("model_not_found", "no such model")
        exchange = await Exchange(h.app, body=chat(name)).end()

    assert exchange.status == 503
    assert exchange.json["error"]["code"] == "model_downloading"
    assert "250 B of 1000 B, 50 B/s, 15 s left" in exchange.json["error"]["message"]
    assert exchange.header(b"retry-after") == b"15"


async def test_a_model_that_nobody_fetches_stays_unknown(house) -> None:
    await sync_to_async(coming)(state="failed")
    async with house(never_asked, downloads=Downloads()) as h:
        h.scheduler.refusal = Refused("model_not_found", "no such model")
        exchange = await Exchange(h.app, body=chat("team/m")).end()

    assert exchange.status == 404


async def test_a_post_begins_a_download(house) -> None:
    body = json.dumps({"model": "team/m:Q8_0"}).encode()

    exchange = await asked(house, "POST", body=body, headers=await admins())

    assert (exchange.status, exchange.json) == (200, {"success": True})
    row = await Download.objects.aget()
    assert (row.kind, row.target, row.state) == ("hub", "team/m:Q8_0", "queued")
    assert row.asked_by.startswith("the admin key robot")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "not valid JSON"),
        (b"[]", 400, "model must be a non-empty string"),
        (b"{}", 400, "model must be a non-empty string"),
        (b'{"model": 7}', 400, "model must be a non-empty string"),
        (b'{"model": "no repo"}', 400, "invalid HF repo format, expected <user>/<model>[:quant]"),
        (b'{"model": "there"}', 409, "model 'there' already exists"),
        (b'{"model": "other"}', 409, "model 'other' already exists"),
        (b'{"model": "team/m"}', 409, "model 'team/m' already exists"),
        (b'{"model": "' + b"x" * (64 << 10) + b'"}', 413, "larger than"),
    ],
)
async def test_a_post_that_makes_no_sense_is_refused_in_llama_cpps_words(
    house, tmp_path: Path, body: bytes, status: int, said: str
) -> None:
    def there() -> None:
        coming()
        file = ModelFile.objects.create(path=str(tmp_path / "m.gguf"))
        Alias.objects.create(
            name="other", preset=Preset.objects.create(name="there", model_file=file)
        )

    await sync_to_async(there)()

    exchange = await asked(house, "POST", body=body, headers=await admins())

    assert exchange.status == status
    assert said in exchange.json["error"]["message"]
    assert await Download.objects.acount() == 1


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_it_takes_an_admin_key(house, method: str) -> None:
    body, query = b'{"model": "team/m"}', b"model=team/m"

    none = await asked(house, method, body=body, query=query)
    inference = await sync_to_async(key)(Scope.INFER)
    wrong = await asked(house, method, body=body, query=query, headers=inference)

    assert (none.status, wrong.status) == (401, 403)
    assert wrong.json["error"]["code"] == "permission_denied"
    assert not await Download.objects.aexists()


@pytest.fixture
def cached(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the cache, and one in a folder."""
    use_scheduler(monkeypatch, FakeScheduler())
    settings.CORRAL_HF_CACHE = str(tmp_path)
    path = tmp_path / "models--team--m" / "snapshots" / ("a" * 40) / "m-Q8_0.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    file = ModelFile.objects.create(path=str(path), source="cache")
    Preset.objects.create(name="team/m:Q8_0", model_file=file, source="cache")
    mine = ModelFile.objects.create(path=str(tmp_path / "mine.gguf"), source="models_dir")
    Preset.objects.create(name="mine", model_file=mine, source="models_dir")
    return path


async def test_a_delete_deletes_the_model_and_its_files(house, cached: Path) -> None:
    exchange = await asked(house, "DELETE", query=b"model=team%2Fm%3AQ8_0", headers=await admins())

    assert (exchange.status, exchange.json) == (200, {"success": True})
    assert not is_there(cached)
    assert not await Preset.objects.filter(name="team/m:Q8_0").aexists()


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        (b"", 400, "model name is missing from the request"),
        (b"model=nobody", 404, "model name=nobody is not found"),
        (b"model=mine", 409, "model name=mine is not removable (not from cache)"),
    ],
)
async def test_a_delete_of_what_is_not_ours_to_delete_is_refused(
    house, cached: Path, query: bytes, status: int, said: str
) -> None:
    exchange = await asked(house, "DELETE", query=query, headers=await admins())

    assert (exchange.status, exchange.json["error"]["message"]) == (status, said)
    assert is_there(cached)


async def test_a_delete_cancels_a_download(house) -> None:
    row = await sync_to_async(coming)(state="queued", files=[])

    exchange = await asked(house, "DELETE", query=b"model=team/m:Q8_0", headers=await admins())

    assert exchange.status == 200
    await row.arefresh_from_db()
    assert row.state == "cancelled"
