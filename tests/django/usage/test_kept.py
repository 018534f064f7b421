"""For how long usage is kept: whole days, and in small pieces."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from proxy.models import UsageDay, UsageHour, UsageRecord
from proxy.rollups import jobs, keeping
from proxy.rollups.keeping import drop_hours, drop_records, kept_since

from .recorded import NOON, a_request, recorded

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping.timezone, "now", lambda: NOON)


def test_today_is_one_of_the_days_that_are_kept() -> None:
    assert kept_since(1) == datetime(2030, 1, 31, tzinfo=UTC)
    assert kept_since(31) == datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.django_db(transaction=True)  # a job ends the connections that it finds
@pytest.mark.each_database
def test_what_is_older_goes_and_the_sums_of_days_stay(settings: Any) -> None:
    settings.CORRAL_USAGE_DAYS, settings.CORRAL_USAGE_HOUR_DAYS = 2, 3
    recorded(*(a_request(at=NOON - timedelta(days=days)) for days in range(5)))

    jobs.drop_old_usage.call_local()

    assert UsageRecord.objects.count() == 2
    assert UsageHour.objects.filter(grain=0).count() == 3
    assert UsageDay.objects.filter(grain=0).count() == 5
    call_command("rollusage", "--check")


@pytest.mark.django_db
def test_more_than_a_piece_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "AT_ONCE", 10)
    recorded(*(a_request(at=NOON - timedelta(days=5)) for _ in range(25)), a_request())

    with CaptureQueriesContext(connection) as asked:
        assert drop_records(2) == 25

    deletes = [each for each in asked if each["sql"].startswith('DELETE FROM "proxy_usagerecord"')]
    assert len(deletes) == 3
    assert UsageRecord.objects.count() == 1
    assert drop_hours(2) == 5


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"CORRAL_USAGE_DAYS": "0"}, "from 1 to 3650"),
        ({"CORRAL_USAGE_DAYS": "9999999"}, "from 1 to 3650"),
        ({"CORRAL_USAGE_HOUR_DAYS": "forever"}, "from 1 to 36500"),
        ({"CORRAL_USAGE_HOUR_DAYS": "89"}, "sums have to last as long"),
    ],
)
def test_absurd_settings_end_the_start_with_their_name(
    tmp_path: Path, variables: dict[str, str], says: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import routerproj.settings"],
        cwd=ROOT,
        env={**os.environ, "CORRAL_VAR": str(tmp_path), **variables},
        capture_output=True,
        text=True,
    )

    assert ended.returncode != 0
    assert next(iter(variables)) in ended.stderr
    assert says in ended.stderr
