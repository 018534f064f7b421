"""The sums of a day, made anew and compared with those that are stored: hours of their requests,
the day of its hours. So nobody who writes has to wait for longer than an hour's requests take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from proxy.models import UsageDay, UsageHour, UsageRecord
from proxy.rollups.figures import Figures, Of, Sums, sums_by_day, sums_by_hour
from proxy.rollups.raising import raise_rows

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

Table = type[UsageHour] | type[UsageDay]
RightSums = Callable[[datetime, datetime], Sums]


@dataclass(frozen=True, slots=True)
class Difference:
    """`stored` and `right` are the columns that differ; an empty one: there is no such row."""

    table: str
    start: datetime
    of: Of
    stored: dict[str, Any]
    right: dict[str, Any]

    def __str__(self) -> str:
        whose = ", ".join(str(part) for part in self.of[2:] if part) or "all together"
        told = [
            f"{name} {self.stored.get(name, 'missing')}, not {self.right.get(name, 'there')}"
            for name in sorted({*self.stored, *self.right})
        ]
        return f"{self.table} {self.start:%Y-%m-%d %H:%M} {whose}: {'; '.join(told)}"


def check_day(day: datetime, *, mend: bool) -> list[Difference]:
    """`day` is its beginning, in UTC. Where an hour is wrong and stays so, nothing is said of the
    day."""
    found = []
    for hour in range(24):
        found += _check(UsageHour, day + hour * HOUR, HOUR, _of_requests, mend=mend)
    if found and not mend:
        return found
    return found + _check(UsageDay, day, DAY, _of_hours, mend=mend)


def _check(
    table: Table, start: datetime, length: timedelta, right_sums: RightSums, *, mend: bool
) -> list[Difference]:
    """Nobody records anything meanwhile, on no database (routerproj/postgresql): what is just being
    written would be missing on one side, or, mended, be counted twice."""
    with transaction.atomic():
        right = right_sums(start, start + length)
        found = list(_differences(table, start, right))
        if found and mend:
            table._default_manager.filter(start=start).delete()
            raise_rows(table, right)
    return found


def _of_requests(start: datetime, end: datetime) -> Sums:
    records = UsageRecord.objects.filter(at__gte=start, at__lt=end)
    return sums_by_hour((each.at, each) for each in records.iterator(chunk_size=2000))


def _of_hours(start: datetime, end: datetime) -> Sums:
    return sums_by_day(_stored(UsageHour, start__gte=start, start__lt=end))


def _stored(table: Table, **where: datetime) -> Sums:
    return {
        (row.start, Of(*(getattr(row, part) for part in Of._fields))): Figures.of_row(row)
        for row in table._default_manager.filter(**where)
    }


def _differences(table: Table, start: datetime, right: Sums) -> Iterator[Difference]:
    stored = _stored(table, start=start)
    for key in sorted({*stored, *right}):
        has = stored[key].columns() if key in stored else {}
        wants = right[key].columns() if key in right else {}
        differing = {name for name in {*has, *wants} if has.get(name) != wants.get(name)}
        if differing:
            yield Difference(
                "hour" if table is UsageHour else "day",
                *key,
                {name: has[name] for name in has if name in differing},
                {name: wants[name] for name in wants if name in differing},
            )
