"""How much of limits is used, and what is left of them: as the scheduler counts it now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from proxy.models import Limit
from proxy.models.limits import FIGURES
from proxy.rollups.figures import day_of
from scheduler.client import call
from scheduler.protocol import MOST_LIMITS, Counted, CountedState, CounterState, Refused

MOST_SHOWN = 200
"""Rows of limits on one page for people."""


@dataclass(frozen=True, slots=True)
class Used:
    """Of one figure of a row. `used` has in it what those under way have reserved. At `resets_at`
    all of it will be there again, if nothing more comes; None: all of it is, or nobody knows when
    those under way end."""

    figure: str
    limit: int
    used: int
    resets_at: datetime | None

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def label(self) -> str:
        field: Any = Limit._meta.get_field(self.figure)
        return str(field.verbose_name)


def used_of(rows: Sequence[Limit]) -> dict[int, list[Used]]:
    """By the rows' primary keys, each figure that is set. Raises Refused when the scheduler does
    not answer."""
    states: dict[str, CounterState] = {}
    for at in range(0, len(rows), MOST_LIMITS):
        asked = Counted(1, [row.counter for row in rows[at : at + MOST_LIMITS]])
        told = msgspec.convert(call(settings.CORRAL_CONTROL_SOCKET, asked), CountedState)
        states |= {state.counter: state for state in told.counters}
    now = timezone.now()
    nothing = CounterState("", 0, 0, 0, 0, 0)
    return {row.pk: _figures(row, states.get(row.counter, nothing), now) for row in rows}


def limits_now(rows: QuerySet[Limit]) -> dict[str, Any]:
    """For a page: include `limits/now.html` with it. Without a scheduler it says so."""
    found = list(rows[: MOST_SHOWN + 1])
    more, shown = len(found) > MOST_SHOWN, found[:MOST_SHOWN]
    used: dict[int, list[Used]] = {}
    problem = ""
    try:
        used = used_of(shown) if shown else {}
    except Refused as refusal:
        problem = refusal.message
    return {
        "limits_now": [(row, used.get(row.pk, [])) for row in shown],
        "limits_problem": problem,
        "limits_more": more,
    }


def _figures(row: Limit, state: CounterState, now: datetime) -> list[Used]:
    tomorrow = day_of(now) + timedelta(days=1)
    next_month = (day_of(now).replace(day=1) + timedelta(days=32)).replace(day=1)
    told = {
        "requests_per_minute": (state.requests, now + timedelta(seconds=state.requests_reset)),
        "tokens_per_minute": (state.tokens, now + timedelta(seconds=state.tokens_reset)),
        "concurrent": (state.concurrent, None),
        "tokens_per_day": (state.day + state.day_held, tomorrow),
        "tokens_per_month": (state.month + state.month_held, next_month),
    }
    found = []
    for figure in FIGURES:
        if (limit := getattr(row, figure)) is not None:
            used, resets_at = told[figure]
            found.append(Used(figure, limit, used, resets_at if used else None))
    return found
