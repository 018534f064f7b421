"""Commands for people at the gateway's machine, without a gateway."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from models_registry.downloads.told import kind_of, line_of
from models_registry.models import AuditRecord, Download, Preset
from scheduler.management.commands.load import progress_told
from scheduler.models import InstanceRecord
from scheduler.protocol import ErrorBody, InstanceState, QueueEntry, SnapshotState
from scheduler.run_logs import run_path
from scheduler.runtime.child_log import ChildLog

from .control_socket import StandInScheduler

pytestmark = pytest.mark.django_db


def ran(*command: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr)."""
    out, err = StringIO(), StringIO()
    try:
        call_command(*command, stdout=out, stderr=err)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_a_model_is_pinned_and_unpinned_and_the_trail_knows_it(preset: Preset) -> None:
    assert ran("pin", preset.name) == (0, f"{preset.name} is pinned\n", "")
    assert Preset.objects.get(pk=preset.pk).pinned
    last = AuditRecord.objects.first()
    assert last is not None
    assert (last.kind, last.object_name) == ("command line", preset.name)

    assert ran("pin", preset.name)[1] == f"{preset.name} was pinned already\n"
    assert ran("unpin", preset.name)[1] == f"{preset.name} is pinned no more\n"
    assert not Preset.objects.get(pk=preset.pk).pinned


def test_what_a_base_pins_stays_so_and_it_is_said(preset: Preset) -> None:
    base = Preset.objects.create(name="shared", model_file=preset.model_file, pinned=True)
    preset.base = base
    preset.save()

    code, told, _ = ran("unpin", preset.name)

    assert (code, told) == (0, f"{preset.name} stays pinned: base preset shared says so\n")


def test_a_load_that_is_refused_says_why_on_stderr(
    preset: Preset, scheduler: StandInScheduler
) -> None:
    scheduler.refuses = ErrorBody("model_load_failed", "its file is cut off: fetch it again")

    assert ran("load", preset.name) == (1, "", "its file is cut off: fetch it again\n")


def test_a_scheduler_that_does_not_run_is_told_with_how_it_is_started(
    preset: Preset, scheduler: StandInScheduler, settings: Any, tmp_path: Path
) -> None:
    settings.CORRAL_CONTROL_SOCKET = tmp_path / "nobody.sock"

    code, told, why = ran("queue")

    assert (code, told) == (1, "")
    assert "start it with `manage.py serve`" in why


def test_a_load_is_told_by_its_progress_then_by_what_it_waits_for() -> None:
    loading = InstanceState(1, "a", "loading", 0, 0, 1, 7, False, 2.0, 2.0, progress=0.5)
    other = InstanceState(2, "b", "loaded", 0, 0, 1, 8, False, 2.0, 2.0)
    waits = [QueueEntry("a", 1, 3.0, "loader")]

    told, step = progress_told("a", SnapshotState(1, 1, 4, False, [other, loading], [], []))
    assert (told, step) == (f"a: [{'#' * 14}{' ' * 14}] loading 50 %, 2 s", "a is loading")
    told, step = progress_told("a", SnapshotState(1, 1, 4, False, [other], waits, []))
    assert told == "a waits: another load is under way; for 3 s so far"
    assert step == "a waits: loader"


def test_what_a_target_looks_like_says_whence_it_comes() -> None:
    assert kind_of("https://host/m.gguf") == "url"
    assert kind_of("user/repo:Q4_K_M") == "hub"
    assert kind_of("llama3.2:1b") == "ollama"


def test_a_download_is_a_bar_where_its_size_is_known() -> None:
    row = Download(target="t", state="running", bytes_done=1024, bytes_total=None)
    assert line_of(row, 100) == "t: 1.0 KiB"

    row.bytes_total = 2048
    assert line_of(row, 100) == f"[{'#' * 14}{' ' * 14}]  50 % 1.0 KiB of 2.0 KiB"
    assert line_of(row, 60) == " 50 % 1.0 KiB of 2.0 KiB"


def test_a_model_that_is_fetched_already_is_not_asked_for_twice(
    preset: Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    Download.objects.create(kind="hub", target="u/r", state=Download.State.RUNNING)

    code, told, why = ran("download", "u/r", "--no-wait")

    assert (code, why) == (0, "")
    assert "already" in told
    assert Download.objects.count() == 1


def printed(logs: Path, preset: str, day: int, *lines: str, file_limit: int = 1000) -> datetime:
    """A run of that day; returns its start."""
    at = datetime(2026, 1, day, 12, tzinfo=UTC)
    log = ChildLog(run_path(logs, preset, at, day), file_limit=file_limit)
    for line in lines:
        log.add(line.encode())
    log.close()
    return at


def test_logs_are_the_last_lines_over_two_files_by_an_alias_too(
    preset: Preset, settings: Any, tmp_path: Path
) -> None:
    settings.CORRAL_LOG_FOLDER = tmp_path
    preset.aliases.create(name="first")
    assert ran("logs", "first")[0] == 1
    printed(tmp_path, preset.name, 1, *(f"line {number}" for number in range(5)), file_limit=12)

    assert ran("logs", "first", "-n", "2") == (0, "line 3\nline 4\n", "")


def test_earlier_runs_are_listed_with_their_ends_and_shown_and_searched(
    preset: Preset, settings: Any, tmp_path: Path
) -> None:
    settings.CORRAL_LOG_FOLDER, settings.TIME_ZONE = tmp_path, "UTC"
    failed = printed(tmp_path, preset.name, 1, "loading", "Error: no memory")
    printed(tmp_path, preset.name, 2, "loading", "fine")
    ended = failed + timedelta(seconds=9)
    InstanceRecord.objects.create(
        preset=preset.name, started_at=failed, ended_at=ended, reason="out_of_memory"
    )

    code, told, _ = ran("logs", preset.name, "--runs")

    assert code == 0
    newest, oldest = told.splitlines()
    assert newest.startswith("  1  2026-01-02 12:00:00  not recorded")
    assert oldest.startswith("  2  2026-01-01 12:00:00  until 2026-01-01 12:00:09: out of memory")
    assert ran("logs", preset.name, "--run", "2") == (0, "loading\nError: no memory\n", "")
    assert ran("logs", preset.name, "--find", "error") == (0, "Error: no memory\n", "")
    both = "loading\nError: no memory\n\n==> 2026-01-02 12:00:00 <==\nloading\nfine\n"
    assert ran("logs", preset.name) == (0, both, "")
    code, _, why = ran("logs", preset.name, "--run", "3")
    assert (code, "numbered 1 to 2" in why) == (1, True)
