"""What the admin's pages say is so, and reads as text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from models_registry.models import Preset
from scheduler.models import DecisionRecord
from scheduler.ports import statuses_of
from scheduler.protocol import Failure, SnapshotState

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


@pytest.mark.parametrize(("asked", "offered"), [("", False), ("?q=none", True)])
def test_a_record_offers_to_show_all_only_when_something_is_left_out(
    admin_client: Client, asked: str, offered: bool
) -> None:
    DecisionRecord.objects.create(
        at=timezone.now(), kind="start", preset="a", reason="asked", figures={}
    )

    shown = admin_client.get(f"/admin/scheduler/decisionrecord/{asked}").content.decode()

    assert ("Show all" in shown) == offered
