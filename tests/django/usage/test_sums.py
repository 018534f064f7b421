"""Sums by hour and day: they are what the single requests add up to, in whatever pieces these came,
and the command says and mends where they are not."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, OperationalError, connection, connections, transaction

from proxy.models import UsageDay, UsageHour, UsageRecord
from proxy.rollups.checking import check_day
from proxy.rollups.figures import Grain
from proxy.rollups.raising import roll_up
from proxy.usage_pages.asking import By, Question
from proxy.usage_pages.sight import Sight
from proxy.usage_pages.spans import Span, Unit

from .recorded import NOON, a_request, in_batches, many_requests, recorded

pytestmark = [pytest.mark.django_db, pytest.mark.each_database]

DAY = datetime(2030, 1, 31, tzinfo=UTC)


def whole(table: Any = UsageDay, **where: Any) -> Any:
    return table.objects.get(grain=Grain.ALL, **where)


def test_a_request_is_in_a_sum_of_each_grain_of_its_hour_and_its_day() -> None:
    recorded(a_request())

    for table, start in ((UsageHour, DAY.replace(hour=12)), (UsageDay, DAY)):
        rows = {row.grain: row for row in table.objects.all()}
        assert set(rows) == set(Grain)
        for row in rows.values():
            assert (row.start, row.requests, row.read, row.cached) == (start, 1, 100, 40)
            assert (row.answered, row.duration, row.queue_wait) == (10, 2_000_000, 500_000)
    each = UsageDay.objects.get(grain=Grain.EACH)
    assert (each.team, each.team_id, each.key, each.user) == ("default", 1, "aaaaaaaa", "anna")
    assert each.preset == "alpha"


def test_what_is_added_later_is_added() -> None:
    for _ in range(3):
        recorded(a_request(), a_request(preset="beta"))

    assert (whole().requests, whole().read) == (6, 600)
    assert UsageDay.objects.get(grain=Grain.PRESET, preset="beta").requests == 3
    assert sum(whole().histograms["duration"].values()) == 6


@pytest.mark.parametrize(
    ("fields", "sums"),
    [
        ({}, {"requests": 1, "read": 100}),
        (
            {"status": 429, "code": "queue_full", "upstream": False, "charged": False},
            {"requests": 1, "refused": 1, "read": 0, "codes": {"queue_full": 1}},
        ),
        (
            {"status": 200, "code": "model_died", "estimated": True},
            {"requests": 1, "failed": 1, "estimated": 1, "read": 100, "codes": {"model_died": 1}},
        ),
        (
            {"status": 502, "code": "model_died", "final": False, "charged": False},
            {"requests": 0, "failed": 0, "read": 0, "codes": {}},
        ),
        ({"status": 400, "charged": False}, {"refused": 1, "failed": 0, "codes": {"http_400": 1}}),
        ({"status": 500, "charged": False}, {"refused": 0, "failed": 1, "codes": {"http_500": 1}}),
        (
            {"status": 499, "code": "client_gone", "estimated": True},
            {"requests": 1, "refused": 0, "failed": 0, "codes": {"client_gone": 1}},
        ),
        ({"read": None, "cached": None, "answered": None}, {"requests": 1, "read": 0}),
    ],
)
def test_each_outcome_counts_as_what_it_is(fields: Any, sums: Any) -> None:
    recorded(a_request(**fields))

    row = whole()
    assert {name: getattr(row, name) for name in sums} == sums


def recorded_sums_first(*requests: UsageRecord, again: UsageRecord) -> None:
    with transaction.atomic():
        roll_up((each.at, each) for each in requests)
        again.save()


def test_a_time_that_nobody_knows_is_none() -> None:
    recorded(a_request(first_token=None))

    assert (whole().first_token, "first_token" in whole().histograms) == (0, False)


def test_sums_of_pieces_are_those_that_are_made_anew() -> None:
    in_batches(many_requests(300, seed=7), size=11)

    for day in range(4):
        assert check_day(DAY - timedelta(days=day), mend=False) == []
    assert whole(UsageHour, start=DAY.replace(hour=12)).requests > 0


def test_records_and_sums_come_together_or_not_at_all() -> None:
    first = a_request()
    recorded(first)

    with pytest.raises(IntegrityError):
        recorded_sums_first(a_request(), again=a_request(record=first.record))

    assert whole().requests == 1


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_lose_nothing_of_each_other() -> None:
    def write(number: int) -> None:
        for at in range(10):
            teams = ((number + at) % 3, (number + at + 1) % 3)
            until_recorded([a_request(team_id=team, team=f"t{team}") for team in teams])
        connections.close_all()

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))

    assert whole().requests == 80
    assert check_day(DAY, mend=False) == []


def until_recorded(requests: list[UsageRecord]) -> None:
    """As the writer does: what the database refuses for a lock is written once more. SQLite's
    database of the tests lies in memory, where nobody waits for a lock."""
    for _ in range(2000):
        try:
            with transaction.atomic():
                recorded(*requests)
            return
        except OperationalError:
            time.sleep(0.005)
    raise AssertionError("it stayed locked")


def test_the_number_of_queries_does_not_grow_with_the_records(
    django_assert_max_num_queries: Any,
) -> None:
    with django_assert_max_num_queries(10):
        roll_up((each.at, each) for each in [a_request() for _ in range(200)])


# Made anew ------------------------------------------------------------------------------------


def spoilt() -> None:
    in_batches(many_requests(60, seed=3, days=2), size=20)
    row = UsageHour.objects.filter(grain=Grain.EACH).order_by("pk").first()
    assert row is not None
    UsageHour.objects.filter(pk=row.pk).update(read=row.read + 5)
    UsageDay.objects.filter(grain=Grain.ALL, start=DAY).delete()
    UsageDay.objects.create(grain=Grain.TEAM, start=DAY, team="ghost", team_id=9, requests=4)


def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("proxy.rollups.keeping", "proxy.management.commands.rollusage"):
        monkeypatch.setattr(f"{module}.timezone.now", lambda: NOON)


def test_the_command_says_what_is_wrong_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt()
    at_noon(monkeypatch)

    with pytest.raises(CommandError, match="run it without --check"):
        call_command("rollusage", "--check")

    told = capsys.readouterr().out
    assert "read " in told
    assert not UsageDay.objects.filter(grain=Grain.ALL, start=DAY).exists()


def test_the_command_mends_what_is_wrong_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt()
    at_noon(monkeypatch)

    call_command("rollusage")
    call_command("rollusage", "--check")

    assert "0 sums are wrong" in capsys.readouterr().out
    assert not UsageDay.objects.filter(team="ghost").exists()


def test_days_whose_requests_have_gone_are_not_touched(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.CORRAL_USAGE_DAYS = 5
    recorded(a_request(), a_request(at=NOON - timedelta(days=9)))
    at_noon(monkeypatch)

    with pytest.raises(CommandError, match="begin with --since 2030-01-27"):
        call_command("rollusage", "--since", "2030-01-20")
    call_command("rollusage")

    assert UsageDay.objects.filter(grain=Grain.ALL).count() == 2


@pytest.mark.parametrize("arguments", [["--since", "yesterday"], ["--until", "2030-13-01"]])
def test_what_is_no_day_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="invalid"):
        call_command("rollusage", *arguments)


def test_an_end_before_the_beginning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(a_request(at=NOON - timedelta(days=3)))
    at_noon(monkeypatch)

    with pytest.raises(CommandError, match="before --since"):
        call_command("rollusage", "--since", "2030-01-30", "--until", "2030-01-29")


def test_the_sums_of_an_empty_database_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("rollusage", "--check")

    assert "1 days: 0 sums are wrong" in capsys.readouterr().out


@pytest.mark.skipif(connection.vendor != "sqlite", reason="how SQLite words its plans")
@pytest.mark.parametrize("by", [[], [By.TEAM], [By.MODEL], [By.KEY]])
@pytest.mark.parametrize(
    "only", [{}, {By.TEAM: "red"}, {By.MODEL: "a"}, {By.KEY: "k"}, {By.TEAM: "red", By.MODEL: "a"}]
)
@pytest.mark.parametrize("sight", [Sight(everything=True), Sight(frozenset({1}), frozenset({"k"}))])
def test_sums_are_found_by_an_index(by: list[By], only: dict[By, str], sight: Sight) -> None:
    span = Span.around(DAY - timedelta(days=30), DAY, Unit.DAY)

    rows = Question(sight, span, only).rows(UsageDay, by).filter(start__gte=DAY)

    assert "SCAN" not in rows.explain()
