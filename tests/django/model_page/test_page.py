"""A model's page: what it shows of whom, to whom, and its log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from models_registry.models import Alias, FileMetadata, Preset
from scheduler.models import DecisionRecord, InstanceRecord
from scheduler.protocol import Failure, SnapshotState
from scheduler.run_logs import run_path

from ..control_socket import StandInScheduler
from ..management import session_of, staff
from ..registry_rows import make_preset
from ..usage.recorded import a_request, recorded

pytestmark = pytest.mark.django_db

DAY = datetime(2026, 1, 1, 12, tzinfo=UTC)
MIB = 1 << 20
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def logs(settings: Any, tmp_path: Path) -> Path:
    settings.CORRAL_LOG_FOLDER = tmp_path / "logs"
    return tmp_path / "logs"


def url(preset: Preset, part: str = "") -> str:
    return f"/admin/model/{preset.pk}/{part}"


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def a_run(preset: Preset, day: int, **fields: Any) -> InstanceRecord:
    """Loaded within 9 s, at noon of that day of the year, and still running."""
    at = DAY + timedelta(days=day)
    known = {"started_at": at, "loaded_at": at + timedelta(seconds=9)}
    return InstanceRecord.objects.create(preset=preset.name, **{**known, **fields})


def printed(logs: Path, preset: Preset, day: int, said: str) -> None:
    path = run_path(logs, preset.name, DAY + timedelta(days=day), day)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(said)


def test_what_the_file_says_and_who_else_runs_it(admin_client: Client, preset: Preset) -> None:
    assert preset.model_file is not None
    FileMetadata.objects.create(
        model_file=preset.model_file, stamp="s", architecture="qwen3", parameters=7_600_000_000,
        quantisation="Q4_K_M", context_length=32768, chat_template="{{ system }} {{ tools }}",
    )  # fmt: skip
    Alias.objects.create(name="short", preset=preset)
    other = make_preset("other", preset.model_file)

    page = text(admin_client, url(preset))

    for said in ("qwen3", "7.6 B", "Q4_K_M", "32,768 tokens", "short", preset.model_file.path):
        assert said in page
    assert f'<a href="/admin/model/{other.pk}/">other</a>' in page
    assert "tools: yes; reasoning: no" in page


def test_options_have_their_origin_and_the_command_line_stands_there(
    admin_client: Client, preset: Preset
) -> None:
    page = text(admin_client, url(preset))

    assert '<th scope="row">ctx-size</th><td>4096</td><td>preset' in page
    assert "--ctx-size 4096" in page


def test_each_load_tells_when_how_long_from_where_why_and_how_it_ended(
    admin_client: Client, preset: Preset
) -> None:
    ended = DAY + timedelta(hours=1)
    first = a_run(preset, 0, cached=0.02, ended_at=ended, reason="evicted")
    DecisionRecord.objects.create(
        at=DAY, kind="start", preset=preset.name, instance=first, reason="requested"
    )
    failed = {"loaded_at": None, "ended_at": DAY + timedelta(days=1, seconds=3), "exit_code": 1}
    a_run(preset, 1, cached=1.0, reason="failed_to_load", words="no such tensor", **failed)
    a_run(preset, 2, argv=["llama-server", "-m", "a b"])

    page = text(admin_client, url(preset, "parts/"))

    assert "cold, 2%" in page
    assert "a request asked for it" in page
    assert "after 59 min, its room was needed" in page
    assert "it ended before it was ready, exit code 1" in page
    assert "cold: from the disk: 1, half of them within 9 s" in page
    assert "llama-server -m &#x27;a b&#x27;" in page
    assert "Its last load failed" not in page
    assert 'aria-label="How long its loads took"' in page


def test_why_its_last_load_failed_stands_first(
    admin_client: Client, scheduler: StandInScheduler, preset: Preset, logs: Path
) -> None:
    end = {"loaded_at": None, "ended_at": DAY + timedelta(seconds=3), "reason": "out_of_memory"}
    a_run(preset, 0, words="failed to allocate CUDA0 buffer", **end)
    printed(logs, preset, 0, "loading\nfailed to allocate\n")
    failure = Failure(preset.name, "out_of_memory", 1, None, "no room", 9.0, 60.0)
    other = Failure("another", "crashed", 1, None, "else", 9.0, 60.0)
    scheduler.snapshot = SnapshotState(1, 0, 4, False, [], [], [failure, other])

    page = text(admin_client, url(preset))

    assert "and did not get ready: there was not enough memory" in page
    assert "failed to allocate CUDA0 buffer" in page
    assert "?run=20260101T120000.000000Z#model-log" in page
    assert "there was not enough memory: no room" in page
    assert "another" not in page


def test_what_cannot_be_started_says_why(
    admin_client: Client, scheduler: StandInScheduler, preset: Preset
) -> None:
    why = {preset.name: "its file cannot be read: it is cut off", "another": "else"}
    scheduler.snapshot = SnapshotState(1, 0, 4, False, [], [], [], problems=why)

    page = text(admin_client, url(preset, "parts/"))

    assert "It cannot be started" in page
    assert "its file cannot be read: it is cut off" in page
    assert "else" not in page
    assert "A request for it loads it" not in page


def test_memory_is_shown_as_predicted_and_as_reported(admin_client: Client, preset: Preset) -> None:
    a_run(preset, 0, predicted={"CUDA0": 900 * MIB, "Host": 90 * MIB}, actual={"CUDA0": 850 * MIB})

    page = text(admin_client, url(preset, "parts/"))

    for said in ("900 MiB", "850 MiB", "-50 MiB", "90 MiB", "not yet"):
        assert said in page


def test_usage_is_that_of_this_model_in_the_time_that_was_asked_for(
    admin_client: Client, preset: Preset
) -> None:
    now = timezone.now()
    mine = {"preset": preset.name, "team": "painters"}
    recorded(
        a_request(at=now, read=111, cached=11, answered=7, first_token=0.5, **mine),
        a_request(at=now - timedelta(days=20), read=5000, cached=0, answered=0, **mine),
        a_request(at=now, preset="another", team="others"),
    )

    week, month = (text(admin_client, f"{url(preset)}?period={each}") for each in ("week", "month"))

    assert "painters" in week
    assert "others</" not in week
    assert "5,118" in month
    assert "5,118" not in week
    for said in ("Time to first token", "P50", "P95", 'aria-current="true">7 days'):
        assert said in week


def test_the_log_is_of_one_run_or_of_all_and_is_searched(
    admin_client: Client, preset: Preset, logs: Path
) -> None:
    printed(logs, preset, 0, f"one\nERROR {EVIL}\n")
    printed(logs, preset, 1, "two\nan error\n")
    end = {"ended_at": DAY + timedelta(hours=1), "reason": "crashed"}
    a_run(preset, 0, **end)

    every = text(admin_client, url(preset))
    first = text(admin_client, f"{url(preset, 'lines/')}?run=20260101T120000.000000Z")
    found = text(admin_client, f"{url(preset, 'lines/')}?find=Error")

    assert every.index("<div>one") < every.index("<div>two")
    assert "2026-01-01 12:00:00, ended" in every
    assert "two" not in first
    assert "The last lines: 2." in first
    assert "2: ERROR" in found
    assert "2: an error" in found
    assert "Lines with “Error”: 2." in found
    assert EVIL not in every + first + found


def test_who_may_view_presets_alone_sees_neither_runs_nor_usage(preset: Preset, logs: Path) -> None:
    a_run(preset, 0)
    printed(logs, preset, 0, "what was asked\n")
    viewer = session_of(staff("models_registry.view_preset"))

    page = text(viewer, url(preset))

    for hidden in ("what was asked", "model-loads", "model-usage", "data-ask"):
        assert hidden not in page
    assert viewer.get(url(preset, "lines/")).status_code == 403


@pytest.mark.parametrize("part", ["", "parts/", "lines/"])
def test_it_takes_the_right_to_view_presets(preset: Preset, part: str) -> None:
    assert (
        session_of(staff("scheduler.view_instancerecord")).get(url(preset, part)).status_code == 403
    )


def test_while_the_scheduler_is_away_the_page_says_so(
    admin_client: Client, scheduler: StandInScheduler, preset: Preset
) -> None:
    scheduler.socket.unlink()

    assert "the scheduler does not answer" in text(admin_client, url(preset))


def test_the_live_page_leads_to_it(
    admin_client: Client, scheduler: StandInScheduler, preset: Preset
) -> None:
    failure = Failure(preset.name, "out_of_memory", 1, None, "no room", 9.0, 60.0)
    scheduler.snapshot = SnapshotState(1, 0, 4, False, [], [], [failure])

    assert f'href="{url(preset)}"' in text(admin_client, "/admin/live/")
