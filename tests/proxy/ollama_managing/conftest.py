"""A registry to be changed, and a key that may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.django.registry_rows import (
    FakeScheduler,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)

from .changing import key


@pytest.fixture
def admin() -> list[tuple[bytes, bytes]]:
    return key()


@pytest.fixture(autouse=True)
def registry(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    """One model that a person has made, on a file that nobody fetched."""
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    scheduler = FakeScheduler()
    use_scheduler(monkeypatch, scheduler)
    settings.CORRAL_VAR = tmp_path / "var"
    settings.CORRAL_HF_CACHE = str(tmp_path / "cache")
    make_preset("base", make_model_file(tmp_path / "base.gguf"))
    return scheduler
