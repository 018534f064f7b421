"""The jobs as they are declared: on which queue, and when by themselves."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from models_registry.jobs import downloads, measures
from scheduler import tasks
from scheduler.models import DecisionRecord


def test_no_queue_runs_jobs_inside_the_caller() -> None:
    assert not downloads.immediate
    assert not measures.immediate


def test_downloads_and_measures_do_not_share_a_queue() -> None:
    assert downloads.storage.filename != measures.storage.filename


def test_the_record_is_pruned_once_a_night() -> None:
    due = [
        (hour, minute)
        for hour in range(24)
        for minute in range(60)
        if tasks.prune.task_class().validate_datetime(datetime(2030, 1, 1, hour, minute))
    ]

    assert due == [(3, 17)]


@pytest.mark.django_db
def test_pruning_removes_what_is_older_than_the_setting(settings: Settings) -> None:
    settings.CORRAL_RECORD_DAYS = 30
    now = timezone.now()
    for days in (1, 29, 31):
        DecisionRecord.objects.create(
            at=now - timedelta(days=days), kind="start", preset="a", reason="requested"
        )

    tasks.prune.call_local()

    assert DecisionRecord.objects.count() == 2
