"""What the record knows of loads reaches the core, and nothing waits for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.utils import timezone

from scheduler.models import InstanceRecord
from scheduler.runtime.load_times import recorded_load_seconds, tell_load_seconds

from .standing_in import preset, staged


def loads(name: str, *seconds: float | None) -> None:
    began = timezone.now()
    for each in seconds:
        loaded = None if each is None else began + timedelta(seconds=each)
        InstanceRecord.objects.create(preset=name, started_at=began, loaded_at=loaded)


@pytest.mark.django_db
def test_a_presets_time_is_the_median_of_its_last_loads(django_assert_num_queries):
    loads("a", *[100.0] * 7, *[3.0, 4.0, 900.0, 5.0, 6.0])
    loads("b", 2.0, 4.0)

    with django_assert_num_queries(1):
        assert recorded_load_seconds() == {"a": 5.0, "b": 3.0}


@pytest.mark.django_db
def test_loads_that_failed_and_clocks_that_were_set_back_tell_nothing():
    loads("a", None, -5.0)
    loads("b", None, 7.0)

    assert recorded_load_seconds() == {"b": 7.0}


@pytest.mark.django_db(transaction=True)
async def test_it_is_told_from_a_thread():
    told = []
    await tell_load_seconds(told.append)

    assert told == [{}]


async def test_a_database_that_fails_is_said_and_no_more(caplog):
    def fails() -> dict[str, float]:
        raise DatabaseError("no such table")

    told = []
    await tell_load_seconds(told.append, fails)

    assert told == []
    assert "no such table" in caplog.text


async def test_the_core_hears_of_it_also_when_the_registry_changes_later():
    async with staged(preset("a"), preset("b")) as stage:
        stage.owner.learn_load_seconds({"a": 4.5, "long gone": 7.0})
        await stage.owner.caught_up()
        known = {name: spec.load_seconds for name, spec in stage.owner.planner.presets.items()}
        assert known == {"a": 4.5, "b": None}

        stage.offers(preset("a"), replace(preset("b"), pinned=True), revision=2)
        await stage.owner.caught_up()

        assert stage.owner.planner.presets["a"].load_seconds == 4.5
