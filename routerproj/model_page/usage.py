"""Who used a model how much, over a day, a week or a month."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.translation import gettext as _

from proxy.usage_pages import sections
from proxy.usage_pages.asking import By, Question, figures_by_unit
from proxy.usage_pages.page import PERIODS
from proxy.usage_pages.sight import Sight
from proxy.usage_pages.spans import Unit

OFFERED = {
    "day": PERIODS["day"],
    "week": replace(PERIODS["week"], unit=Unit.DAY),
    "month": PERIODS["month"],
}
FIRST_BYTE = {"p50": 0.5, "p95": 0.95}


def usage_of(preset: str, period: str) -> dict[str, Any]:
    """For the template. An unknown period is a week."""
    period = period if period in OFFERED else "week"
    span = OFFERED[period].until(timezone.now(), UTC)
    question = Question(Sight(everything=True), span, {By.MODEL: preset})
    found = figures_by_unit(question)
    shown = [
        sections.requests(span, found),
        sections.tokens_of(span, found),
        sections.tokens_by(question, By.TEAM, _("Tokens by team"), _nowhere),
        sections.latency(
            span,
            found,
            "first_token",
            _("Time to first token"),
            _("From the request until the first piece of its answer, where it was streamed."),
            shares=FIRST_BYTE,
        ),
    ]
    return {
        "usage_sections": shown,
        "period": period,
        "periods": [(name, each.title) for name, each in OFFERED.items()],
        "usage_query": urlencode({"period": period, "model": preset}),
    }


def _nowhere(by: By, name: str) -> str:
    """The page on usage has more."""
    return ""
