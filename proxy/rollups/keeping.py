"""How long usage is kept: single requests and sums of hours for some days, sums of days for ever.

What goes, goes in whole days, so that sums can be made anew of every day that is still there, and
in small pieces, so that whoever writes meanwhile waits for one of them at most.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from proxy.models import UsageHour, UsageRecord
from proxy.rollups.figures import day_of

AT_ONCE = 500
PAUSE_SECONDS = 0.02
"""For others who want to write: SQLite gives the lock to whoever asks next, without a line."""


def kept_since(days: int, now: datetime | None = None) -> datetime:
    """The beginning of the first day that is kept, today being one of them."""
    return day_of(now or timezone.now()) - timedelta(days=days - 1)


def drop_records(days: int) -> int:
    """Returns how many went."""
    return _drop(UsageRecord, "at", kept_since(days))


def drop_hours(days: int) -> int:
    return _drop(UsageHour, "start", kept_since(days))


def _drop(table: type[UsageRecord] | type[UsageHour], moment: str, before: datetime) -> int:
    """The oldest first: one that is stopped half-way leaves whole days but for the oldest."""
    rows = table._default_manager.filter(**{f"{moment}__lt": before}).order_by(moment)
    gone = 0
    while True:
        with transaction.atomic():
            keys = list(rows.values_list("pk", flat=True)[:AT_ONCE])
            table._default_manager.filter(pk__in=keys).delete()
        gone += len(keys)
        if len(keys) < AT_ONCE:
            return gone
        time.sleep(PAUSE_SECONDS)
