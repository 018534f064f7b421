"""POST /router/api/rescan does what the admin's button does, and says what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models_registry.models import Preset

from .management import Manager, session_of, staff
from .registry_rows import gguf


def test_the_report_says_what_was_found(manager: Manager, tmp_path: Path, settings: Any) -> None:
    gguf(tmp_path / "models" / "new.gguf")
    settings.CORRAL_MODELS_DIR = str(tmp_path / "models")

    first, again = manager.post("/rescan"), manager.post("/rescan")

    assert first.status == 200
    assert (first.json["found"], first.json["added"]) == ({"models_dir": 1}, ["new"])
    assert again.json["added"] == []
    assert Preset.objects.get().name == "new"


def test_a_folder_that_is_away_is_in_the_report(
    manager: Manager, tmp_path: Path, settings: Any
) -> None:
    settings.CORRAL_MODELS_DIR = str(tmp_path / "nothing")

    answer = manager.post("/rescan")

    assert answer.status == 200
    assert "cannot be listed" in answer.json["vanished"][0]


def test_a_fault_in_the_presets_file_is_in_the_report(
    manager: Manager, tmp_path: Path, settings: Any
) -> None:
    (tmp_path / "presets.ini").write_text("[a\n")
    settings.CORRAL_MODELS_PRESET = str(tmp_path / "presets.ini")

    answer = manager.post("/rescan")

    assert answer.status == 200
    assert "line 1" in answer.json["presets_fault"]


def test_who_may_not_add_files_may_not_look_for_them(scheduler: Any, db: None) -> None:
    answer = Manager(client=session_of(staff("models_registry.view_modelfile"))).post("/rescan")

    assert answer.code == "permission_denied"
