"""A model's files as the disk has them: every look is cheap, and no change is missed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models_registry import model_paths
from models_registry.model_paths import files_state

LONG_AGO = 1_000_000_000


def shards(folder: Path, count: int = 3) -> list[Path]:
    """In a folder that has not been touched for long."""
    files = [folder / f"big-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    for file in files:
        file.write_bytes(b"x" * 10)
    os.utime(folder, (LONG_AGO, LONG_AGO))
    return files


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each file that was looked at."""
    seen: list[str] = []
    look = model_paths._seen

    def counted(files: object) -> object:
        paths = list(files)  # type: ignore[call-overload]
        seen.extend(Path(path).name for path in paths)
        return look(paths)

    monkeypatch.setattr(model_paths, "_seen", counted)
    return seen


def test_shards_of_a_folder_at_rest_are_looked_at_once(tmp_path: Path, looks: list[str]) -> None:
    first = shards(tmp_path)[0]

    states = {files_state(str(first)) for _ in range(5)}

    assert len(looks) == 3
    assert [state.size for state in states] == [30]


def test_a_shard_that_came_or_went_is_noticed_at_once(tmp_path: Path) -> None:
    first, second, _ = shards(tmp_path)
    files_state(str(first))

    second.unlink()
    assert second.name in files_state(str(first)).problem
    second.write_bytes(b"y")
    assert files_state(str(first)).problem == ""


def test_shards_that_were_overwritten_are_noticed_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = shards(tmp_path)
    files_state(str(first))
    second.write_bytes(b"longer than before")
    monkeypatch.setattr(model_paths, "LOOK_AGAIN_SECONDS", 0.0)

    assert files_state(str(first)).size == 38


def test_more_shards_than_any_model_has_are_not_looked_for(
    tmp_path: Path, looks: list[str]
) -> None:
    file = tmp_path / "big-00001-of-99999.gguf"
    file.touch()

    assert "99999 shards" in files_state(str(file)).problem
    assert looks == []
