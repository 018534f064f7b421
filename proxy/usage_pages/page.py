"""The page on usage: what was asked for, and its sections. Who may see it has been asked before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from proxy.models import ApiKey
from proxy.usage_pages import sections, telling
from proxy.usage_pages.asking import By, Question, all_of, figures_by_unit, totals
from proxy.usage_pages.sight import Sight
from proxy.usage_pages.spans import DAY, HOUR, Span, Unit, UnknownZone, zone_called

LONGEST = {By.TEAM: 100, By.MODEL: 200, By.KEY: 20, By.USER: 150}
MEASURES = {
    "first_token": (
        gettext_lazy("Time to first token"),
        gettext_lazy("From the request until the first piece of its answer."),
    ),
    "queue_wait": (
        gettext_lazy("Wait in the queue"),
        gettext_lazy("From the request until a model took it."),
    ),
    "load_wait": (
        gettext_lazy("Wait for a load"),
        gettext_lazy("Of the wait in the queue: while the model was loaded."),
    ),
    "duration": (
        gettext_lazy("Duration"),
        gettext_lazy("From the request until the end of its answer."),
    ),
}


@dataclass(frozen=True, slots=True)
class Period:
    title: Any  # in the language of who reads it
    length: timedelta
    unit: Unit

    def until(self, now: datetime, zone: tzinfo) -> Span:
        """Its last unit is the one that has not ended."""
        one = HOUR if self.unit is Unit.HOUR else DAY
        return Span.around(now - self.length + one, now, self.unit, zone)


PERIODS = {
    "day": Period(gettext_lazy("24 hours"), timedelta(hours=24), Unit.HOUR),
    "week": Period(gettext_lazy("7 days"), timedelta(days=7), Unit.HOUR),
    "month": Period(gettext_lazy("30 days"), timedelta(days=30), Unit.DAY),
    "quarter": Period(gettext_lazy("90 days"), timedelta(days=90), Unit.DAY),
    "year": Period(gettext_lazy("365 days"), timedelta(days=365), Unit.DAY),
}
USUAL = "month"


@dataclass(frozen=True, slots=True)
class Wish:
    """What stands after the page's ?. `problem` says what of it cannot be."""

    period: str
    only: dict[By, str]
    zone_name: str
    zone: tzinfo
    problem: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Wish:
        period = query.get("period", USUAL)
        texts = {by: query.get(by, "").strip().replace("\0", "") for by in By}
        only = {by: text[: LONGEST[by]] for by, text in texts.items() if text}
        name = query.get("zone", "").strip() or "UTC"
        known = period if period in PERIODS else USUAL
        try:
            return cls(known, only, name, zone_called(name))
        except UnknownZone as unknown:
            return cls(known, only, "UTC", UTC, f"{unknown}.".capitalize())

    def query(self, **other: str) -> str:
        asked = {"period": self.period, **{str(by): text for by, text in self.only.items()}}
        zone = {} if self.zone_name == "UTC" else {"zone": self.zone_name}
        return urlencode({**asked, **zone, **other})

    def link(self, by: By, name: str) -> str:
        return self.query(**{str(by): name})


def usage_page(wish: Wish, sight: Sight, now: datetime | None = None) -> dict[str, Any]:
    """For the template: all but what others than the proxy know."""
    span = PERIODS[wish.period].until(now or timezone.now(), wish.zone)
    question = Question(sight, span, wish.only)
    found = figures_by_unit(question)
    shown = [
        sections.tokens_by(question, By.TEAM, _("Tokens by team"), wish.link),
        sections.tokens_by(question, By.MODEL, _("Tokens by model"), wish.link),
        sections.requests(span, found),
        *(
            sections.latency(span, found, name, str(title), str(note))
            for name, (title, note) in MEASURES.items()
        ),
        sections.codes(span, found),
    ]
    return {
        "wish": wish,
        "span": span,
        "periods": [
            (name, each.title, wish.query(period=name), name == wish.period)
            for name, each in PERIODS.items()
        ],
        "fields": [(str(by), _LABELS[by], wish.only.get(by, "")) for by in _LABELS],
        "tiles": _tiles(all_of(found.values()).numbers),
        "sections": shown,
        "keys": _keys(question, wish),
        "keys_shown": KEYS_SHOWN,
        "csv_query": _csv_query(wish, span),
    }


_LABELS = {
    By.TEAM: gettext_lazy("Team"),
    By.MODEL: gettext_lazy("Model"),
    By.KEY: gettext_lazy("Key (public id)"),
}


def _tiles(numbers: Mapping[str, int]) -> list[tuple[str, str]]:
    """What one wants to know in one look."""
    told = {
        _("Requests"): numbers["requests"],
        _("Tokens read"): numbers["read"],
        _("of these cached"): numbers["cached"],
        _("Tokens answered"): numbers["answered"],
        _("Failed"): numbers["failed"],
        _("Refused"): numbers["refused"],
    }
    return [(title, telling.count(number)) for title, number in told.items()]


KEYS_SHOWN = 20


def _keys(question: Question, wish: Wish) -> list[dict[str, str]]:
    """Those with the most tokens, by the names they have now."""
    found = list(totals(question, By.KEY).items())[:KEYS_SHOWN]
    names = dict(
        ApiKey.objects.filter(public_id__in=[key for key, _numbers in found]).values_list(
            "public_id", "name"
        )
    )
    return [
        {
            "key": key,
            "name": names.get(key, "" if not key else _("(deleted)")),
            "query": wish.link(By.KEY, key) if key else "",
            "shown": sections.name_of(key, By.KEY),
            "tokens": telling.count(numbers["read"] + numbers["answered"]),
            "requests": telling.count(numbers["requests"]),
        }
        for key, numbers in found
    ]


def _csv_query(wish: Wish, span: Span) -> str:
    """The same question to the management API."""
    asked = {
        "since": span.start.isoformat(),
        "until": span.end.isoformat(),
        "unit": str(span.unit),
        "zone": wish.zone_name,
        **{str(by): text for by, text in wish.only.items()},
    }
    return urlencode(asked)
