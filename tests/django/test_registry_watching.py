"""The sources are looked at by themselves: a rescan comes when something has changed, else none."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from models_registry import watching
from models_registry.models import ModelFile, Preset
from scheduler.management.commands.runjobs import sources_watch

from .registry_rows import gguf

pytestmark = pytest.mark.django_db


@pytest.fixture
def rescans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> list[int]:
    """One entry for each rescan. The test's connection is its own, and stays."""
    settings.CORRAL_MODELS_DIR = str(tmp_path)
    done: list[int] = []
    rescan = watching.rescan_sources

    def counted() -> Any:
        done.append(1)
        return rescan()

    monkeypatch.setattr(watching, "rescan_sources", counted)
    monkeypatch.setattr(watching, "close_old_connections", lambda: None)
    return done


def test_only_what_has_changed_brings_a_rescan(rescans: list[int], tmp_path: Path) -> None:
    gguf(tmp_path / "a.gguf")
    seen = watching.look(None)
    assert watching.look(seen) is seen
    assert len(rescans) == 1

    gguf(tmp_path / "b.gguf")
    seen = watching.look(seen)

    assert len(rescans) == 2
    assert set(Preset.objects.values_list("name", flat=True)) == {"a", "b"}


def test_a_file_written_anew_at_the_same_length_is_a_change(
    rescans: list[int], tmp_path: Path
) -> None:
    file = gguf(tmp_path / "a.gguf")
    seen = watching.look(None)
    os.utime(file, ns=(1, 1))

    watching.look(seen)

    assert len(rescans) == 2


def test_a_folder_that_vanished_is_looked_for_once_and_comes_back(
    rescans: list[int], tmp_path: Path, settings: Any
) -> None:
    folder = tmp_path / "models"
    settings.CORRAL_MODELS_DIR = str(folder)
    gguf(folder / "a.gguf")
    seen = watching.look(None)
    away = folder.rename(tmp_path / "away")

    seen = watching.look(seen)
    seen = watching.look(seen)
    assert len(rescans) == 2
    assert ModelFile.objects.get().missing_since is None

    away.rename(folder)
    watching.look(seen)
    assert len(rescans) == 3


def test_the_watch_looks_until_it_is_stopped_and_not_at_all_for_0_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, looked = threading.Event(), threading.Event()

    def look(seen: Any) -> Any:
        looked.set()
        return seen

    monkeypatch.setattr(watching, "look", look)

    watch = sources_watch(0.001, stop)

    assert watch is not None
    assert looked.wait(30)
    stop.set()
    watch.join(30)
    assert not watch.is_alive()
    assert sources_watch(0, stop) is None


def test_what_still_stands_is_logged_once(
    rescans: list[int], tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CORRAL_MODELS_DIR = str(tmp_path / "models")
    gguf(tmp_path / "models" / "a.gguf")
    (tmp_path / "models" / "broken.gguf").symlink_to(tmp_path / "nowhere")
    caplog.set_level(logging.INFO, logger="models_registry.watching")

    seen = None
    for name in ("b", "c"):
        seen = watching.look(seen)
        gguf(tmp_path / "models" / f"{name}.gguf")
    watching.look(seen)

    assert caplog.text.count("broken.gguf: cannot be read") == 1
    assert [caplog.text.count(f"new: {name}") for name in "abc"] == [1, 1, 1]
