"""How long prompts and answers are kept: as many days as their team says, and no longer than the
team and the record of the request."""

from __future__ import annotations

import time
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from proxy.models import Team, UsageContent

AT_ONCE = 500
PAUSE_SECONDS = 0.02


def drop_old_content() -> int:
    """Returns how many went."""
    now, gone, teams = timezone.now(), 0, []
    for team, days in Team.objects.values_list("pk", "content_days"):
        teams.append(team)
        gone += _drop(UsageContent.objects.filter(team_id=team, at__lt=now - timedelta(days=days)))
    return gone + _drop(UsageContent.objects.exclude(team_id__in=teams))


def _drop(rows: QuerySet[UsageContent]) -> int:
    gone = 0
    while True:
        with transaction.atomic():
            keys = list(rows.values_list("pk", flat=True)[:AT_ONCE])
            UsageContent.objects.filter(pk__in=keys).delete()
        gone += len(keys)
        if len(keys) < AT_ONCE:
            return gone
        time.sleep(PAUSE_SECONDS)
