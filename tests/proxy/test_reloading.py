"""GET /models?reload=… reads the sources again, once for all who ask at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from models_registry import tasks
from models_registry.models import Preset
from proxy import reloading
from proxy.reloading import reload_asked
from scheduler.protocol import SnapshotState

from .asking import Exchange
from .fakes import Connection, Received

pytestmark = pytest.mark.django_db(transaction=True)


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("a list asks no child")


@pytest.fixture
def models(tmp_path: Path, settings: Any) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    settings.CORRAL_MODELS_DIR = str(folder)
    return folder


async def listed(h: Any, query: bytes) -> list[str]:
    exchange = await Exchange(h.app, "/models", method="GET", query=query).end()
    assert exchange.status == 200
    return [entry["id"] for entry in exchange.json["data"]]


async def test_a_model_that_came_is_listed_when_a_reload_is_asked_for(house, models):
    (models / "new.gguf").write_bytes(b"GGUF")
    async with house(never_asked) as h:
        h.scheduler.live = SnapshotState(1, 1, 4, False, [], [], [])

        assert await listed(h, b"reload=") == []
        assert await listed(h, b"reload=0") == ["new"]


async def test_all_who_ask_meanwhile_share_one_rescan(house, models, monkeypatch):
    done: list[int] = []
    monkeypatch.setattr(reloading, "rescan_and_tell", lambda: done.append(1))
    async with house(never_asked) as h:
        h.scheduler.live = SnapshotState(1, 1, 4, False, [], [], [])
        await asyncio.gather(*(listed(h, b"reload=1") for _ in range(20)))

    assert len(done) == 1


async def test_a_folder_that_vanished_is_told_in_the_log_and_the_list_is_answered(
    house, models, caplog
):
    caplog.set_level("INFO", logger="proxy")
    (models / "a.gguf").write_bytes(b"GGUF")
    await asyncio.to_thread(tasks.rescan_sources)
    (models / "a.gguf").unlink()
    models.rmdir()
    async with house(never_asked) as h:
        h.scheduler.live = SnapshotState(1, 1, 4, False, [], [], [])

        assert await listed(h, b"reload=1") == ["a"]

    assert "cannot be listed" in caplog.text
    assert await Preset.objects.acount() == 1


async def test_a_fault_in_the_presets_file_is_answered_with_its_line_and_nothing_changes(
    house, models, settings, tmp_path
):
    file = tmp_path / "presets.ini"
    file.write_text("[a]\nmodel = /a.gguf\nctx-sice = 512\n")
    settings.CORRAL_MODELS_PRESET = str(file)
    (models / "new.gguf").write_bytes(b"GGUF")
    async with house(never_asked) as h:
        exchange = await Exchange(h.app, "/models", method="GET", query=b"reload=1").end()

    assert exchange.status == 422
    message = exchange.json["error"]["message"]
    assert "presets.ini" in message
    assert "line 3" in message
    assert not await Preset.objects.aexists()


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (b"", False),
        (b"reload", False),
        (b"reload=", False),
        (b"reload=&x=1", False),
        (b"reload=0", True),
        (b"a=1&reload=false", True),
        (b"preload=1", False),
    ],
)
def test_any_value_that_is_not_empty_asks_for_it(query: bytes, asked: bool) -> None:
    assert reload_asked(query) is asked
