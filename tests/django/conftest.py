"""What every test of the management API stands on: an engine, a scheduler, an asker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models_registry.models import Preset

from .control_socket import StandInScheduler, stand_in_scheduler, use_control_socket
from .management import Manager, admin_key
from .registry_rows import make_model_file, make_preset, use_stand_in_engine


@pytest.fixture
def engine_stand_in(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)


@pytest.fixture
def scheduler(
    settings: Any, monkeypatch: pytest.MonkeyPatch, engine_stand_in: None
) -> Iterator[StandInScheduler]:
    with stand_in_scheduler() as standing_in:
        use_control_socket(settings, monkeypatch, standing_in)
        yield standing_in


@pytest.fixture
def manager(db: None, scheduler: StandInScheduler) -> Manager:
    """Holds an admin key."""
    return Manager(admin_key())


@pytest.fixture
def preset(db: None, scheduler: StandInScheduler, tmp_path: Path) -> Preset:
    return make_preset("user/repo:Q4_K_M", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)
