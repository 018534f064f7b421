"""What somebody's own keys have used this month, for a page of theirs: include
`usage/own.html` with what `own_usage` tells."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _

from proxy.models import ApiKey
from proxy.rollups.figures import day_of
from proxy.usage_pages import sections
from proxy.usage_pages.asking import By, Question, figures_by_unit
from proxy.usage_pages.sight import Sight
from proxy.usage_pages.spans import Span, Unit


def own_usage(person: User, now: datetime | None = None) -> dict[str, Any]:
    """By the day, of each key, also of those that are used no more. Days are of UTC, as budgets
    are. No team's: what a lead may see besides is not theirs."""
    now = now or timezone.now()
    keys = dict(ApiKey.objects.filter(user=person).values_list("public_id", "name"))
    span = Span.around(day_of(now).replace(day=1), now, Unit.DAY)
    question = Question(Sight(keys=frozenset(keys)), span)
    names = {key: f"{name} ({key})" for key, name in keys.items()}
    return {
        "usage_sections": [
            sections.tokens_by(question, By.KEY, _("Tokens by key"), _nowhere, names),
            sections.tokens_by(question, By.MODEL, _("Tokens by model"), _nowhere),
            sections.requests(span, figures_by_unit(question)),
        ],
        "usage_month": span.start,
        "csv_query": urlencode({"since": span.start.isoformat(), "until": span.end.isoformat()}),
    }


def _nowhere(by: By, name: str) -> str:
    """There is no page for one of them alone."""
    return ""
