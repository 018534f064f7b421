"""`manage.py rollusage`: the sums of usage made anew of the single requests, or only compared."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from proxy.models import UsageRecord
from proxy.rollups.checking import DAY, check_day
from proxy.rollups.figures import day_of
from proxy.rollups.keeping import kept_since

SHOWN = 20


class Command(BaseCommand):
    help = (
        "Makes the sums of usage per hour and day anew, of the single requests that are still "
        "kept, and says what was wrong. Days are of UTC."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="say what is wrong, mend nothing")
        parser.add_argument("--since", type=_day, metavar="YYYY-MM-DD", help="the first day")
        parser.add_argument("--until", type=_day, metavar="YYYY-MM-DD", help="the last day")

    def handle(
        self,
        *args: Any,
        check: bool,
        since: datetime | None,
        until: datetime | None,
        **options: Any,
    ) -> None:
        oldest = _oldest_whole_day()
        first, last = since or oldest, until or day_of(timezone.now())
        if first < oldest:
            raise CommandError(
                f"The requests of {first:%Y-%m-%d} are no longer all there: begin with "
                f"--since {oldest:%Y-%m-%d}."
            )
        if last < first:
            raise CommandError("--until is before --since.")
        found = 0
        day = first
        while day <= last:
            for difference in check_day(day, mend=not check):
                found += 1
                if found <= SHOWN:
                    self.stdout.write(str(difference))
            day += DAY
        if found > SHOWN:
            self.stdout.write(f"and {found - SHOWN} more")
        days = (last - first) // timedelta(days=1) + 1
        if check and found:
            raise CommandError(f"{found} sums of {days} days are wrong: run it without --check.")
        self.stdout.write(f"{days} days: {found} sums {'are wrong' if check else 'were mended'}")


def _day(text: str) -> datetime:
    """Raises ValueError, which argparse tells."""
    return datetime.combine(date.fromisoformat(text), time(), UTC)


def _oldest_whole_day() -> datetime:
    """Before it requests have gone, or there never were any."""
    kept = kept_since(settings.CORRAL_USAGE_DAYS)
    oldest = UsageRecord.objects.order_by("at").values_list("at", flat=True).first()
    return max(kept, day_of(oldest or timezone.now()))
