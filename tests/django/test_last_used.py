"""When presets were last used, by the record of instances; what they need, by the snapshot."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from scheduler.models import InstanceRecord
from scheduler.ports import ControlSocketScheduler, statuses_of
from scheduler.protocol import SnapshotState

NOW = timezone.now()


@pytest.mark.django_db
def test_the_last_instance_of_each_counts(django_assert_num_queries) -> None:
    def ran(preset: str, began: int, ended: int | None) -> None:
        InstanceRecord.objects.create(
            preset=preset,
            started_at=NOW - timedelta(hours=began),
            ended_at=None if ended is None else NOW - timedelta(hours=ended),
        )

    ran("a", 9, 8)
    ran("a", 5, 4)
    ran("b", 7, 6)
    ran("b", 2, None)
    ran("other", 1, 1)
    scheduler = ControlSocketScheduler(Path("/nowhere"))

    with django_assert_num_queries(1):
        used = scheduler.last_used(["a", "b", "never"])

    assert used == {"a": NOW - timedelta(hours=4), "b": NOW - timedelta(hours=2)}


def test_a_measured_preset_has_a_need_though_nothing_of_it_runs() -> None:
    snapshot = SnapshotState(1, 0, 4, False, [], [], [], measured={"a": {"CUDA0": 7}})

    status = statuses_of(snapshot)["a"]

    assert (status.state, status.need) == ("unloaded", {"CUDA0": 7})
