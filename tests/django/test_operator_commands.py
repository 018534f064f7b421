"""Commands for people at the gateway's machine, without a gateway."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from models_registry.downloads.told import kind_of, line_of
from models_registry.models import AuditRecord, Download, Preset
from scheduler.management.commands.load import progress_told
from scheduler.protocol import ErrorBody, InstanceState, QueueEntry, SnapshotState
from scheduler.runtime.child_log import ChildLog, log_path

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


def test_logs_are_the_last_lines_over_two_files_by_an_alias_too(
    preset: Preset, settings: Any, tmp_path: Path
) -> None:
    settings.CORRAL_LOG_FOLDER = tmp_path
    preset.aliases.create(name="first")
    assert ran("logs", "first")[0] == 1
    log = ChildLog(log_path(tmp_path, preset.name), file_limit=12)
    for number in range(5):
        log.add(f"line {number}".encode())
    log.close()

    assert ran("logs", "first", "-n", "2") == (0, "line 3\nline 4\n", "")
