"""Spans: whole hours and days of any zone, and the rows that make them up."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from proxy.models import UsageDay, UsageHour
from proxy.usage_pages.charts import HEIGHT, bars, curves
from proxy.usage_pages.spans import DAY, HOUR, Span, Unit, UnknownZone, zone_called

AT = datetime(2030, 3, 10, 12, 34, tzinfo=UTC)
ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "America/New_York",
         "Africa/Cairo", "Pacific/Apia", "Etc/UTC"]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", list(Unit))
def test_pieces_are_all_of_a_span_and_nothing_twice(zone: str, unit: Unit) -> None:
    dice = random.Random(zone)
    for _ in range(40):
        start = AT + timedelta(minutes=dice.randrange(525_600))
        span = Span.around(start, start + timedelta(minutes=dice.randrange(1, 9000)), unit,
                           zone_called(zone))  # fmt: skip

        pieces = list(span.pieces())

        assert (pieces[0][1], pieces[-1][2]) == span.hours
        assert [end for _, _, end in pieces[:-1]] == [begin for _, begin, _ in pieces[1:]]
        for table, begin, end in pieces:
            length = DAY if table is UsageDay else HOUR
            assert begin < end
            assert (begin - datetime(2030, 1, 1, tzinfo=UTC)) % length == timedelta()
            assert (end - begin) % length == timedelta()
        assert sum(table is UsageHour for table, _, _ in pieces) <= 2


@pytest.mark.parametrize("zone", ZONES)
def test_every_hour_is_of_one_unit_of_its_span(zone: str) -> None:
    span = Span.around(AT, AT + timedelta(days=400), Unit.DAY, zone_called(zone))
    units = span.units()
    at, end = span.hours

    while at < end:
        assert span.unit_of(at) in units
        at += HOUR
    assert units == sorted(set(units))


def test_a_day_in_which_the_clock_is_set_has_its_own_hours() -> None:
    berlin = zone_called("Europe/Berlin")
    noon = datetime(2030, 3, 31, 12, tzinfo=UTC)
    spring = Span.around(noon, noon + HOUR, Unit.DAY, berlin)

    assert spring.end - spring.start == timedelta(hours=23)


def test_where_midnight_is_left_out_the_day_begins_later() -> None:
    cairo = zone_called("Africa/Cairo")  # the clock is set at midnight, in April
    span = Span.around(datetime(2026, 4, 22, tzinfo=UTC), datetime(2026, 4, 27, tzinfo=UTC),
                       Unit.DAY, cairo)  # fmt: skip

    assert len(span.units()) == 6


@pytest.mark.parametrize("name", ["", "Mars", "../../etc/passwd", "/etc/passwd", "Europe", "a\0b"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(UnknownZone, match="no time zone"):
        zone_called(name)


# Charts ---------------------------------------------------------------------------------------


def test_bars_stand_on_one_another() -> None:
    chart = bars(["a", "b"], {"one": [1.0, 0.0], "two": [3.0, 4.0]}, str)

    one, two = (line.path for line in chart.lines)
    assert one.count("M") == 1
    assert two.count("M") == 2
    top_of_one = one.split("V")[1].split("h")[0]
    assert two.startswith(f"M{one[1:].split(' ')[0]} {top_of_one}V")
    assert [column.text for column in chart.columns] == ["a: one 1.0, two 3.0", "b: two 4.0"]


def test_a_curve_is_broken_where_nothing_is_known() -> None:
    chart = curves(["a", "b", "c", "d"], {"p": [1.0, float("nan"), 2.0, 3.0]}, str)

    assert (chart.lines[0].path.count("h6"), chart.lines[0].path.count("L")) == (2, 1)


@pytest.mark.parametrize("values", [[], [0.0], [1e18, 1.0], [1e-9]])
def test_a_chart_of_odd_values_stays_within_its_frame(values: list[float]) -> None:
    for chart in (bars(["x"] * len(values), {"a": values}, str),
                  curves(["x"] * len(values), {"a": values}, str)):  # fmt: skip
        assert all(0 <= mark.at <= HEIGHT for mark in chart.grid)
        assert len(chart.columns) == len(values)
