"""Sums over a span: of whom, told apart by what. The coarsest rows that can tell are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import Q, QuerySet, Sum

from proxy.rollups.figures import NUMBERS, Figures, Grain
from proxy.usage_pages.sight import Sight
from proxy.usage_pages.spans import Span, Table


class By(StrEnum):
    """What sums are told apart by."""

    TEAM = "team"
    MODEL = "model"
    KEY = "key"
    USER = "user"


COLUMNS = {By.TEAM: "team", By.MODEL: "preset", By.KEY: "key", By.USER: "user"}
_OF_KEYS = frozenset({By.TEAM, By.KEY, By.USER})


@dataclass(frozen=True, slots=True)
class Question:
    """Whose usage, within what may be seen. `only` are names: of a team, a preset, a user, and the
    public id of a key."""

    sight: Sight
    span: Span
    only: dict[By, str] = field(default_factory=dict)

    def rows(self, table: Table, by: Iterable[By] = ()) -> QuerySet[Any]:
        """Those that add up to the answer, each request once."""
        asked = {*self.only, *by}
        where = Q(**{COLUMNS[each]: name for each, name in self.only.items()})
        if By.TEAM in self.only:
            # The index is by number; a name may have been several teams', one after the other.
            named = table._default_manager.filter(grain=Grain.TEAM, team=self.only[By.TEAM])
            where &= Q(team_id__in=named.values("team_id"))
        grain = _grain(asked, self.sight)
        found = table._default_manager.filter(where, self.sight.rows, grain=grain)
        return found.order_by()


def _grain(asked: set[By], sight: Sight) -> Grain:
    if not sight.everything:
        asked = {*asked, By.TEAM, *([By.KEY] if sight.keys else [])}
    if not asked:
        return Grain.ALL
    if asked == {By.MODEL}:
        return Grain.PRESET
    if asked == {By.TEAM}:
        return Grain.TEAM
    return Grain.KEY if asked <= _OF_KEYS else Grain.EACH


def _summed() -> dict[str, Sum]:
    return {f"sum_{name}": Sum(name) for name in NUMBERS}


def _numbers(row: dict[str, Any]) -> dict[str, int]:
    """Sums of no rows are null."""
    return {name: int(row[f"sum_{name}"] or 0) for name in NUMBERS}


Totals = dict[str, dict[str, int]]
"""By the name of what is told apart: NUMBERS. In the order of the tokens, the most first."""


def tokens(numbers: dict[str, int]) -> int:
    return numbers["read"] + numbers["answered"]


def totals(question: Question, by: By) -> Totals:
    found: Totals = {}
    for table, start, end in question.span.pieces():
        rows = question.rows(table, [by]).filter(start__gte=start, start__lt=end)
        for row in rows.values(COLUMNS[by]).annotate(**_summed()):
            _add(found.setdefault(row[COLUMNS[by]], dict.fromkeys(NUMBERS, 0)), _numbers(row))
    return dict(sorted(found.items(), key=lambda item: (-tokens(item[1]), item[0])))


def total(question: Question) -> dict[str, int]:
    found = dict.fromkeys(NUMBERS, 0)
    for table, start, end in question.span.pieces():
        rows = question.rows(table).filter(start__gte=start, start__lt=end)
        _add(found, _numbers(rows.aggregate(**_summed())))
    return found


Series = dict[tuple[datetime, str], dict[str, int]]
"""By the beginning of a unit, and the name of what is told apart; only where there is something."""


def series(question: Question, by: By | None, names: Sequence[str] | None = None) -> Series:
    """In the order of time, then of names. `names`: of these alone."""
    span = question.span
    start, end = span.hours
    apart = [] if by is None else [COLUMNS[by]]
    rows = question.rows(span.table, [] if by is None else [by])
    rows = rows.filter(start__gte=start, start__lt=end)
    if by is not None and names is not None:
        rows = rows.filter(**{f"{COLUMNS[by]}__in": names})
    found: Series = {}
    units: dict[datetime, datetime] = {}
    for row in rows.values("start", *apart).annotate(**_summed()).iterator(chunk_size=2000):
        at = row["start"]
        unit = units.get(at) or units.setdefault(at, span.unit_of(at))
        name = row[COLUMNS[by]] if by is not None else ""
        _add(found.setdefault((unit, name), dict.fromkeys(NUMBERS, 0)), _numbers(row))
    return dict(sorted(found.items()))


def figures_by_unit(question: Question) -> dict[datetime, Figures]:
    """With histograms and codes, which only whole rows have."""
    span = question.span
    start, end = span.hours
    found: dict[datetime, Figures] = {}
    rows = question.rows(span.table).filter(start__gte=start, start__lt=end)
    for row in rows.iterator(chunk_size=500):
        found.setdefault(span.unit_of(row.start), Figures()).add(Figures.of_row(row))
    return dict(sorted(found.items()))


def all_of(parts: Iterable[Figures]) -> Figures:
    whole = Figures()
    for part in parts:
        whole.add(part)
    return whole


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] += count


def names_of(found: Iterable[tuple[datetime, str]]) -> Iterator[str]:
    yield from dict.fromkeys(name for _, name in found)
