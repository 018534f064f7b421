"""Raises the sums by what has just been recorded, in the transaction that records it.

Each row that is raised is first written as it is, which makes it if it is missing and keeps others
from it until the transaction ends; then it is read, and written with what comes to it. All writers
take the rows in the same order, so that none waits for one that waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction

from proxy.models import UsageDay, UsageHour
from proxy.rollups.figures import (
    NUMBERS,
    Figures,
    Of,
    Recorded,
    Sums,
    sums_by_day,
    sums_by_hour,
)

AT_ONCE = 500
KEY = ("grain", "start", "team_id", "team", "key", "user", "preset")
FIGURES = (*NUMBERS, "histograms", "codes")

Row = UsageHour | UsageDay


def roll_up(records: Iterable[tuple[datetime, Recorded]]) -> None:
    """Once for each record that is really inserted, and once in a transaction for all of them."""
    hours = sums_by_hour(records)
    with transaction.atomic():
        raise_rows(UsageHour, hours)
        raise_rows(UsageDay, sums_by_day(hours))


def raise_rows(table: type[Row], more: Sums) -> None:
    ordered = sorted(more)
    for at in range(0, len(ordered), AT_ONCE):
        keys = ordered[at : at + AT_ONCE]
        rows = _kept_from_others([_row(table, start, of) for start, of in keys])
        for row, key in zip(rows, keys, strict=True):
            figures = Figures.of_row(row)
            figures.add(more[key])
            for name, value in figures.columns().items():
                setattr(row, name, value)
        _written(rows, FIGURES)


def _row(table: type[Row], start: datetime, of: Of) -> Row:
    return table(start=start, **of._asdict())


def _kept_from_others(rows: list[Row]) -> list[Row]:
    """The same rows, as they are stored."""
    _written(rows, ("grain",))
    stored = type(rows[0])._default_manager.in_bulk([row.pk for row in rows])
    return [stored[row.pk] for row in rows]


def _written(rows: list[Any], fields: tuple[str, ...]) -> None:
    for row in rows:
        row.pk = None
    type(rows[0])._default_manager.bulk_create(
        rows, update_conflicts=True, unique_fields=KEY, update_fields=fields
    )
