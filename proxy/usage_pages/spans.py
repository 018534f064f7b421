"""From when to when, and in whose days. Sums are stored by the hour and day of UTC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from proxy.models import UsageDay, UsageHour
from proxy.rollups.figures import day_of, hour_of

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

Table = type[UsageHour] | type[UsageDay]


class Unit(StrEnum):
    HOUR = "hour"
    DAY = "day"


class UnknownZone(ValueError):
    """No time zone is called so."""


def zone_called(name: str) -> tzinfo:
    """Raises UnknownZone."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is no zone
        raise UnknownZone(
            f"no time zone is called {name[:60]!r}: write one as in Europe/Berlin"
        ) from None


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` up to `end`, cut at whole units of `zone`. Where `zone` is half an hour off UTC,
    an hour counts for the day in which it begins."""

    start: datetime
    end: datetime
    unit: Unit
    zone: tzinfo = UTC

    @classmethod
    def around(cls, start: datetime, end: datetime, unit: Unit, zone: tzinfo = UTC) -> Span:
        """The units that `start` and `end` lie in are part of it as a whole."""
        if unit is Unit.HOUR:
            last = hour_of(end)
            return cls(hour_of(start), last if last == end else last + HOUR, unit, zone)
        first = _midnight(start, zone)
        last = _midnight(end, zone)
        return cls(first, last if last == end else _midnight_after(end, zone), unit, zone)

    @property
    def table(self) -> Table:
        """In which a row's `start` alone says to which unit it belongs."""
        return UsageDay if self.unit is Unit.DAY and self.zone is UTC else UsageHour

    @property
    def hours(self) -> tuple[datetime, datetime]:
        """What the `start` of its rows lies between."""
        return _whole_hour(self.start), _whole_hour(self.end)

    def pieces(self) -> Iterator[tuple[Table, datetime, datetime]]:
        """The fewest rows that make up all of it: whole days of UTC, and hours at its ends."""
        start, end = self.hours
        first, last = day_of(start - timedelta(microseconds=1)) + DAY, day_of(end)
        if first >= last:
            yield UsageHour, start, end
            return
        if start < first:
            yield UsageHour, start, first
        yield UsageDay, first, last
        if last < end:
            yield UsageHour, last, end

    def unit_of(self, start: datetime) -> datetime:
        """When the unit began that a row of `table` belongs to."""
        return hour_of(start) if self.unit is Unit.HOUR else _midnight(start, self.zone)

    def units(self) -> list[datetime]:
        """When each began, also those in which nothing happened."""
        units, at = [], self.start
        while at < self.end:
            units.append(at)
            at = at + HOUR if self.unit is Unit.HOUR else _midnight_after(at, self.zone)
        return units


def _midnight(at: datetime, zone: tzinfo) -> datetime:
    return datetime.combine(at.astimezone(zone).date(), time(), zone).astimezone(UTC)


def _midnight_after(at: datetime, zone: tzinfo) -> datetime:
    date = at.astimezone(zone).date() + DAY
    return datetime.combine(date, time(), zone).astimezone(UTC)


def _whole_hour(at: datetime) -> datetime:
    """The first hour of UTC that begins then or later."""
    whole = hour_of(at)
    return whole if whole == at else whole + HOUR
