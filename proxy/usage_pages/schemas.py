"""What the management API takes and gives of usage."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Self

from django.db.models import Q
from django.utils import timezone
from ninja import Schema
from pydantic import Field, field_validator, model_validator

from models_registry.shapes import Asked, Moment, Page
from proxy.rollups.figures import MICROSECONDS, TIMES, Figures
from proxy.rollups.histogram import percentile
from proxy.usage_pages.asking import By, Question, tokens
from proxy.usage_pages.sight import Sight
from proxy.usage_pages.spans import Span, Unit, zone_called

DEFAULT_SPAN = timedelta(days=30)
MOST_UNITS = 20_000
LENGTHS = {Unit.HOUR: timedelta(hours=1), Unit.DAY: timedelta(days=1)}

_ZONE = Field("UTC", max_length=60, description="Whose days they are: Europe/Berlin.")


class _Whose(Asked):
    """What both sums and single requests are asked for by. All of these at once."""

    team: str = Field("", max_length=100, description="Of this team only, by its name.")
    model: str = Field("", max_length=200, description="Of this preset only.")
    key: str = Field("", max_length=20, description="Of this key only, by its public id.")
    user: str = Field("", max_length=150, description="Of this person's keys only.")

    @property
    def only(self) -> dict[By, str]:
        asked = {By.TEAM: self.team, By.MODEL: self.model, By.KEY: self.key, By.USER: self.user}
        return {by: name for by, name in asked.items() if name}


class SumsAsked(_Whose):
    since: Moment | None = Field(None, description="30 days before `until` unless told.")
    until: Moment | None = Field(None, description="Now unless told.")
    unit: Unit = Field(Unit.DAY, description="`since` and `until` are widened to whole ones.")
    zone: str = _ZONE

    @field_validator("zone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        zone_called(name)
        return name

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        start, end = self._ends()
        if start >= end:
            raise ValueError("`since` has to be before `until`")
        if (end - start) / LENGTHS[self.unit] > MOST_UNITS:
            raise ValueError(f"from `since` to `until` are more than {MOST_UNITS:,} {self.unit}s")
        return self

    def _ends(self) -> tuple[datetime, datetime]:
        end = self.until or timezone.now()
        return self.since or end - DEFAULT_SPAN, end

    def question(self, sight: Sight) -> Question:
        span = Span.around(*self._ends(), self.unit, zone_called(self.zone))
        return Question(sight, span, self.only)


class TotalsAsked(SumsAsked, Page):
    by: By = Field(By.TEAM, description="What they are told apart by.")


class SeriesAsked(SumsAsked, Page):
    by: By | None = Field(None, description="What they are told apart by; unset: all together.")


class LatencyAsked(SumsAsked, Page):
    pass


class RequestsAsked(_Whose, Page):
    since: Moment | None = Field(None, description="Come then or later.")
    until: Moment | None = Field(None, description="Come before then.")
    request_id: str = Field("", max_length=100, description="The `x-request-id` of its answer.")
    status: int | None = Field(None, ge=100, le=599)
    code: str = Field("", max_length=50, description="An error's, of docs/errors.md.")
    estimated: bool | None = None

    def conditions(self) -> Q:
        asked: dict[str, Any] = {
            "at__gte": self.since,
            "at__lt": self.until,
            "team": self.team,
            "preset": self.model,
            "key": self.key,
            "user": self.user,
            "request_id": self.request_id,
            "status": self.status,
            "code": self.code,
            "estimated": self.estimated,
        }
        return Q(**{name: value for name, value in asked.items() if value not in (None, "")})


class FiguresOut(Schema):
    """Times are seconds, summed over all requests that told them."""

    requests: int
    failed: int = Field(description="Of these: an instance had them, and did not end them well.")
    refused: int = Field(description="Of these: none had them, or it refused them as they were.")
    read: int = Field(description="Tokens of prompts.")
    cached: int = Field(description="Of these: not computed anew.")
    answered: int = Field(description="Tokens of answers.")
    tokens: int = Field(description="Read and answered.")
    estimated: int = Field(description="Requests whose tokens were estimated.")
    queue_wait: float
    load_wait: float = Field(description="Of the wait in the queue: while its model was loaded.")
    first_token: float = Field(description="From the request until the first token.")
    duration: float


class NamedFiguresOut(FiguresOut):
    name: str = Field(description="Of the team, preset or user; of a key its public id.")


class UnitOut(Schema):
    start: datetime
    of: list[NamedFiguresOut] = Field(description="Only where there is something.")


class SpreadOut(Schema):
    """Seconds, at most 4.5 % off; null where nothing was counted."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None


class LatencyOut(Schema):
    queue_wait: SpreadOut
    load_wait: SpreadOut
    first_token: SpreadOut
    duration: SpreadOut


class UnitLatencyOut(LatencyOut):
    start: datetime


class SummaryOut(Schema):
    since: datetime = Field(description="As it was widened.")
    until: datetime
    total: FiguresOut
    latency: LatencyOut
    codes: dict[str, int] = Field(description="How many requests ended with an error, by its code.")


class RequestOut(Schema):
    """One try: a request that was tried again has two."""

    request_id: str
    attempt: int
    final: bool = Field(description="False: another try followed.")
    at: datetime
    team: str
    key: str = Field(description="Its public id; empty without one.")
    key_name: str
    user: str
    asked: str = Field(description="The model's name as the client wrote it.")
    preset: str
    instance: int | None
    path: str
    dialect: str
    stream: bool
    status: int
    code: str
    read: int | None
    cached: int | None
    answered: int | None
    estimated: bool
    charged: bool
    queue_wait: float | None
    load_wait: float | None
    first_token: float | None
    duration: float | None
    client: str
    upstream: bool = Field(description="An instance had it.")


# Figures as they are told -----------------------------------------------------------------


def told(numbers: dict[str, int]) -> dict[str, Any]:
    seconds = {name: numbers[name] / MICROSECONDS for name in TIMES}
    return {**numbers, **seconds, "tokens": tokens(numbers)}


def latency(figures: Figures) -> dict[str, Any]:
    return {name: _spread(figures, name) for name in TIMES}


def _spread(figures: Figures, name: str) -> dict[str, Any]:
    buckets = figures.histograms.get(name, {})
    count = sum(buckets.values())
    return {
        "count": count,
        "mean": figures.numbers[name] / MICROSECONDS / count if count else None,
        "p50": percentile(buckets, 0.5),
        "p90": percentile(buckets, 0.9),
        "p99": percentile(buckets, 0.99),
    }
