"""The management API's routes for usage: sums, single requests, and CSV of both.

Unlike the rest of that API it is for everybody who has something to see (askers.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from ninja import Query, Router

from models_registry.access import asker_of
from models_registry.csv_rows import Row
from models_registry.shapes import Page, Paged
from proxy.models import UsageRecord
from proxy.rollups.figures import TIMES
from proxy.usage_pages.askers import NeedsSight, sight_of
from proxy.usage_pages.asking import (
    By,
    Question,
    all_of,
    figures_by_unit,
    series,
    totals,
)
from proxy.usage_pages.schemas import (
    FiguresOut,
    LatencyAsked,
    NamedFiguresOut,
    RequestOut,
    RequestsAsked,
    SeriesAsked,
    SummaryOut,
    SumsAsked,
    TotalsAsked,
    UnitLatencyOut,
    UnitOut,
    latency,
    told,
)
from proxy.usage_pages.tables import csv_answer, in_pieces

usage = Router(tags=["usage"], auth=NeedsSight())

UNITS_AT_ONCE = 7
FIGURES = tuple(FiguresOut.model_fields)
SPREAD = ("count", "mean", "p50", "p90", "p99")
REQUEST = tuple(RequestOut.model_fields)


@usage.get("/summary", response=SummaryOut)
def summarise(request: HttpRequest, asked: Query[SumsAsked]) -> dict[str, Any]:
    """All of it together: sums, how long things took, and how many ended with which error."""
    question = _question(request, asked)
    whole = all_of(figures_by_unit(question).values())
    return {
        "since": question.span.start,
        "until": question.span.end,
        "total": told(whole.numbers),
        "latency": latency(whole),
        "codes": dict(sorted(whole.codes.items(), key=lambda item: (-item[1], item[0]))),
    }


@usage.get("/totals", response=Paged[NamedFiguresOut])
def list_totals(request: HttpRequest, asked: Query[TotalsAsked]) -> dict[str, Any]:
    """Who used how much, those with the most tokens first."""
    return asked.of(_totals(_question(request, asked), asked.by))


@usage.get("/totals.csv", response={200: None})
def export_totals(request: HttpRequest, asked: Query[TotalsAsked]) -> StreamingHttpResponse:
    """All of them, whatever `limit` says."""
    found = _totals(_question(request, asked), asked.by)
    rows: list[Row] = [[each["name"], *(each[name] for name in FIGURES)] for each in found]
    return csv_answer("usage-totals", [str(asked.by), *FIGURES], iter([rows]))


@usage.get("/series", response=Paged[UnitOut])
def list_series(request: HttpRequest, asked: Query[SeriesAsked]) -> dict[str, Any]:
    """By the hour or day: `limit`, `offset` and `count` are of these."""
    question, count = _paged(_question(request, asked), asked)
    return {"items": _units(question, asked.by) if question else [], "count": count}


@usage.get("/series.csv", response={200: None})
def export_series(request: HttpRequest, asked: Query[SeriesAsked]) -> StreamingHttpResponse:
    """A line for each name in each hour or day, whatever `limit` says."""
    whole = _question(request, asked)
    head = ["start", str(asked.by or "name"), *FIGURES]

    def pieces() -> Iterator[list[Row]]:
        for question in _weeks(whole):
            yield [
                [unit["start"].isoformat(), each["name"], *(each[name] for name in FIGURES)]
                for unit in _units(question, asked.by)
                for each in unit["of"]
            ]

    return csv_answer("usage-series", head, pieces())


@usage.get("/latency", response=Paged[UnitLatencyOut])
def list_latency(request: HttpRequest, asked: Query[LatencyAsked]) -> dict[str, Any]:
    """How long things took, by the hour or day: `limit`, `offset` and `count` are of these."""
    question, count = _paged(_question(request, asked), asked)
    return {"items": _latencies(question) if question else [], "count": count}


@usage.get("/latency.csv", response={200: None})
def export_latency(request: HttpRequest, asked: Query[LatencyAsked]) -> StreamingHttpResponse:
    """A line for each hour or day, whatever `limit` says."""
    whole = _question(request, asked)
    head = ["start", *(f"{name}_{figure}" for name in TIMES for figure in SPREAD)]

    def pieces() -> Iterator[list[Row]]:
        for question in _weeks(whole):
            yield [
                [unit["start"].isoformat(), *(unit[name][of] for name in TIMES for of in SPREAD)]
                for unit in _latencies(question)
            ]

    return csv_answer("usage-latency", head, pieces())


@usage.get("/requests", response=Paged[RequestOut])
def list_requests(request: HttpRequest, asked: Query[RequestsAsked]) -> dict[str, Any]:
    """Single requests, the newest first, as long as they are kept."""
    return asked.of(_requests(request, asked).order_by("-at", "-pk"))


@usage.get("/requests.csv", response={200: None})
def export_requests(request: HttpRequest, asked: Query[RequestsAsked]) -> StreamingHttpResponse:
    """All of them, the oldest first, whatever `limit` says."""
    rows = _requests(request, asked)
    if asked.until is None:
        rows = rows.filter(at__lt=timezone.now())  # else it might never be done
    return csv_answer("usage-requests", REQUEST, in_pieces(rows, "at", REQUEST))


# What they share --------------------------------------------------------------------------


def _question(request: HttpRequest, asked: SumsAsked) -> Question:
    return asked.question(sight_of(asker_of(request)))


def _requests(request: HttpRequest, asked: RequestsAsked) -> QuerySet[UsageRecord]:
    seen = sight_of(asker_of(request)).rows
    return UsageRecord.objects.filter(seen, asked.conditions())


def _totals(question: Question, by: By) -> list[dict[str, Any]]:
    return [{"name": name, **told(numbers)} for name, numbers in totals(question, by).items()]


def _paged(question: Question, page: Page) -> tuple[Question | None, int]:
    """The part of it that is on the page, and of how many units it is a part."""
    units = question.span.units()
    shown = units[page.offset : page.offset + page.limit]
    if not shown:
        return None, len(units)
    end = [*units, question.span.end][page.offset + len(shown)]
    return replace(question, span=replace(question.span, start=shown[0], end=end)), len(units)


def _weeks(question: Question) -> Iterator[Question]:
    units = question.span.units()
    for at in range(0, len(units), UNITS_AT_ONCE):
        end = [*units, question.span.end][min(at + UNITS_AT_ONCE, len(units))]
        yield replace(question, span=replace(question.span, start=units[at], end=end))


def _units(question: Question, by: By | None) -> list[dict[str, Any]]:
    """Times are told in the zone that was asked for."""
    span = question.span
    found: dict[Any, list[dict[str, Any]]] = {unit: [] for unit in span.units()}
    for (unit, name), numbers in series(question, by).items():
        found[unit].append({"name": name, **told(numbers)})
    return [{"start": at.astimezone(span.zone), "of": of} for at, of in found.items()]


def _latencies(question: Question) -> list[dict[str, Any]]:
    span = question.span
    found = figures_by_unit(question)
    return [
        {"start": at.astimezone(span.zone), **latency(found[at] if at in found else all_of([]))}
        for at in span.units()
    ]
