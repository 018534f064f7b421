"""The list of presets in the order of what no column of theirs holds: what the scheduler and its
record say of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest

from models_registry import ports
from models_registry.admin import live
from models_registry.models import Preset

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not
    _Paginator = Paginator[Preset]
else:
    _Paginator = Paginator


def _needs(names: list[str]) -> Mapping[str, Any]:
    statuses = live.live_statuses()
    return {name: sum(need.values()) for name in names if (need := statuses.of(name).need)}


def _last_uses(names: list[str]) -> Mapping[str, Any]:
    try:
        return ports.scheduler().last_used(names)
    except ports.SchedulerUnavailable:
        return {}


VALUES: Mapping[str, Callable[[list[str]], Mapping[str, Any]]] = {
    "need": _needs,
    "last_use": _last_uses,
}
"""By the list's column: the value of each preset that has one."""


class ByValue(_Paginator):
    """Those without a value come last, whichever way it goes."""

    column: str
    descending: bool

    def page(self, number: int | str) -> Any:
        number = self.validate_number(number)
        begin = (number - 1) * self.per_page
        part = self._names()[begin : begin + self.per_page]
        shown: Any = self.object_list
        rows = {row.name: row for row in shown.filter(name__in=part)}
        return Page([rows[name] for name in part if name in rows], number, self)

    def _names(self) -> list[str]:
        rows: Any = self.object_list
        names = sorted(set(rows.order_by().values_list("name", flat=True)))
        values = VALUES[self.column](names)
        known = [name for name in names if name in values]
        known.sort(key=lambda name: values[name], reverse=self.descending)
        return [*known, *(name for name in names if name not in values)]


def asked_order(request: HttpRequest, columns: list[str]) -> tuple[str, bool]:
    """(the column of VALUES that the list is to be sorted by first, whether the largest comes
    first); an empty column for any other order."""
    first = request.GET.get("o", "").partition(".")[0]
    number = first.removeprefix("-")
    if not number.isdecimal() or len(number) > 3 or int(number) >= len(columns):
        return "", False
    column = columns[int(number)]
    return (column, first.startswith("-")) if column in VALUES else ("", False)
