"""A stand-in hub, a cache and a state folder of their own, and jobs that run when they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from models_registry.downloads import asking, transfer, work
from models_registry.models import Download
from tests.support.hub import Hub, hub

GGUF = b"GGUF" + bytes(range(256)) * 300
"""A model as far as a download looks at it."""


@pytest.fixture
def stand_in(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr(transfer, "PAUSES_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(work, "PAUSES_SECONDS", (0.01, 0.01))
    settings.CORRAL_VAR = tmp_path / "var"
    settings.CORRAL_HF_CACHE = str(tmp_path / "cache")
    with hub() as serving:
        settings.CORRAL_HF_ENDPOINT = serving.url
        settings.CORRAL_OLLAMA_REGISTRY = serving.url
        settings.CORRAL_DOWNLOAD_HOSTS = [serving.url, serving.cdn_url]
        yield serving


@pytest.fixture
def fetched(db: None, stand_in: Hub) -> Callable[..., Download]:
    """Asks for it, does the job in this process, and gives the row as it is then."""

    def fetch(target: str, kind: str = "hub", **fields: Any) -> Download:
        row = asking.create(kind, target, asked_by="a test", **fields)
        return worked(row)

    return fetch


def worked(row: Download) -> Download:
    work.work(row.pk)
    return Download.objects.get(pk=row.pk)


def in_cache(tmp_path: Path, repo: str) -> Path:
    return tmp_path / "cache" / f"models--{repo.replace('/', '--')}"


def parts(tmp_path: Path) -> list[Path]:
    """What is unfinished anywhere."""
    return [*tmp_path.rglob("*.incomplete"), *tmp_path.rglob("*.part")]
