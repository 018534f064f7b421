"""Logs of runs on disk: so many of a preset, so many bytes of all, and none goes while it runs."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scheduler import run_logs
from scheduler.run_logs import RunLog, make_room, preset_folder, prune, run_path, runs_in, runs_of

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def made(logs: Path, number: int, *, preset: str = "m", size: int = 1) -> RunLog:
    """The run of that day, whose last line came on it."""
    at = DAY + timedelta(days=number)
    path = run_path(logs, preset, at, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return RunLog(at, number, path)


def days(logs: Path, preset: str = "m") -> list[int]:
    return [run.instance for run in runs_of(logs, preset)]


def test_the_oldest_runs_go_before_another_one_begins(tmp_path: Path) -> None:
    runs = [made(tmp_path, number) for number in range(run_logs.RUNS_KEPT + 3)]

    make_room(runs[0].path.parent, running={runs[0].path})

    assert len(days(tmp_path)) == run_logs.RUNS_KEPT
    assert days(tmp_path)[-2:] == [4, 0]


def test_few_but_large_runs_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_logs, "PRESET_BYTES", 25)
    runs = [made(tmp_path, number, size=10) for number in range(4)]

    make_room(runs[0].path.parent, running=())

    assert days(tmp_path) == [3, 2]


def test_old_runs_of_any_preset_go_and_their_empty_folders(tmp_path: Path) -> None:
    kept, running = made(tmp_path, 9), made(tmp_path, 0)
    gone = made(tmp_path, 1, preset="gone")

    removed = prune(tmp_path, before=DAY + timedelta(days=5), running={(running.started_at, "m")})

    assert removed == 1
    assert days(tmp_path) == [kept.instance, running.instance]
    assert not gone.path.parent.exists()


def test_all_together_they_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_logs, "ALL_BYTES", 25)
    for number in range(4):
        made(tmp_path, number, preset=f"m{number % 2}", size=10)

    assert prune(tmp_path, before=DAY, running=()) == 2
    assert (days(tmp_path, "m0"), days(tmp_path, "m1")) == ([2], [3])


def test_what_is_no_run_is_left_alone(tmp_path: Path) -> None:
    folder = made(tmp_path, 1).path.parent
    for name in ("20269999T999999.000000Z-1.log", "notes.log", "20260101T000000Z-1.log"):
        (folder / name).write_text("x")

    assert len(runs_in(folder)) == 1
    assert prune(tmp_path, before=DAY + timedelta(days=99), running=()) == 1
    assert len(list(folder.iterdir())) == 3


def test_names_that_are_no_file_names_get_folders_of_their_own(tmp_path: Path) -> None:
    names = ["a", "org/model:Q4", "org_model_Q4", "../escape", ".hidden", "x" * 300, "x" * 299]
    folders = {preset_folder(tmp_path, name) for name in names}

    assert len(folders) == len(names)
    assert all(each.parent == tmp_path / "runs" and len(each.name) < 130 for each in folders)
    assert not any(each.name.startswith(".") for each in folders)
