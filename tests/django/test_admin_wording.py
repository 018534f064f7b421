"""What the admin's pages say is so, and reads as text."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from django.test import Client
from django.utils import timezone

from models_registry.admin.live import badges, saved_told
from models_registry.models import Preset
from models_registry.ports import PresetStatus, Running
from scheduler.models import DecisionRecord
from scheduler.ports import statuses_of
from scheduler.protocol import (
    Failure,
    HoldupName,
    InstanceState,
    QueueEntry,
    SavesState,
    SnapshotState,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "page",
    ["models_registry/preset/add/", "proxy/apikey/add/", "models_registry/preset/{}/change/"],
)
def test_no_help_text_shows_a_backtick(admin_client: Client, preset: Preset, page: str) -> None:
    shown = admin_client.get(f"/admin/{page}".format(preset.pk)).content.decode()

    assert not re.findall(r"[^<>]*`[^<>]*", re.sub(r"<script.*?</script>", "", shown, flags=re.S))
    assert "<code>" in shown


def test_an_empty_field_that_is_locked_says_what_counts(
    admin_client: Client, preset: Preset, settings: Any
) -> None:
    settings.CORRAL_COMMAND_LINE = {"threads": "3"}

    shown = admin_client.get(f"/admin/models_registry/preset/{preset.pk}/change/").content.decode()

    field = re.search(r'<input[^>]*name="threads"[^>]*>', shown)
    assert field is not None
    assert "unset: 3 (serve&#x27;s command line)" in field[0]


@pytest.mark.parametrize(
    ("exit_code", "signal", "told"),
    [(1, None, "exit code 1"), (None, 9, "signal 9"), (None, None, "")],
)
def test_a_status_says_how_the_child_of_a_failed_load_ended(
    exit_code: int | None, signal: int | None, told: str
) -> None:
    failure = Failure("a", "failed_to_load", exit_code, signal, "words", 1.0, 1.0)

    status = statuses_of(SnapshotState(1, 0, 4, False, [], [], [failure]))["a"]

    assert (status.failure, status.exit) == ("failed_to_load: words", told)


def test_what_cannot_be_started_says_so_beside_its_state() -> None:
    why = {"a": "its file cannot be read"}

    status = statuses_of(SnapshotState(1, 0, 4, False, [], [], [], problems=why))["a"]

    assert (status.state, status.problem) == ("unloaded", "its file cannot be read")
    assert "cannot be started" in badges(status)


def test_a_status_tells_of_every_instance_where_it_is_and_what_it_takes() -> None:
    placed = InstanceState(
        3, "a", "loaded", 0, 0, 4, 1, False, 1.0, 1.0, placement="whole", layers={"CUDA0": 31},
        context=8192, why="it fits", predicted={"CUDA0": 1}, actual={"CUDA0": 2},
    )  # fmt: skip

    status = statuses_of(SnapshotState(1, 0, 4, False, [placed], [], []))["a"]

    assert status.running == (
        Running(3, "loaded", "whole", {"CUDA0": 31}, 8192, "it fits", {"CUDA0": 1}, {"CUDA0": 2}),
    )


def test_a_status_tells_what_is_saved_of_conversations_and_what_that_was_good_for() -> None:
    saves = [SavesState("a", 3, 99 << 20, 7, 5, 0, 0.0), SavesState("b", 1, 1 << 20, 2, 2, 2, 12.3)]

    told = statuses_of(SnapshotState(1, 0, 4, False, [], [], [], saves=saves))

    assert saved_told(told["a"]) == "3 in 99.0 MiB."
    assert saved_told(told["b"]) == ("1 in 1.0 MiB; 2 came back and were spared 12.3 s of reading.")
    assert saved_told(PresetStatus("loaded")) == ""


@pytest.mark.parametrize("holdup", get_args(HoldupName))
def test_a_status_says_in_words_what_waiters_wait_for(holdup: HoldupName) -> None:
    waiting = QueueEntry("a", 1, 1.0, holdup)

    status = statuses_of(SnapshotState(1, 0, 4, False, [], [waiting], []))["a"]

    assert bool(status.holdup) == (holdup != "load")  # whose progress is shown instead


@pytest.mark.parametrize(("asked", "offered"), [("", False), ("?q=none", True)])
def test_a_record_offers_to_show_all_only_when_something_is_left_out(
    admin_client: Client, asked: str, offered: bool
) -> None:
    DecisionRecord.objects.create(
        at=timezone.now(), kind="start", preset="a", reason="asked", figures={}
    )

    shown = admin_client.get(f"/admin/scheduler/decisionrecord/{asked}").content.decode()

    assert ("Show all" in shown) == offered
