"""What all shapes of the management API share: bodies, what stands after the `?`, and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import QuerySet
from ninja import Schema
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
)

LARGEST_PAGE = 200

T = TypeVar("T")


_SURROGATE = re.compile(r"[\ud800-\udfff]")


class _WithoutNul(Schema):
    """No database and no command line takes it, whatever the field; nor half a surrogate pair."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_nul(cls, value: object) -> object:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("a text cannot hold the character NUL")
        if isinstance(value, str) and _SURROGATE.search(value):
            raise ValueError(r"a text cannot hold half a surrogate pair (\ud800 to \udfff alone)")
        return value


class Strict(_WithoutNul):
    """A body: a field that it does not have is refused, not dropped."""

    model_config = ConfigDict(extra="forbid")


class Asked(_WithoutNul):
    """The names that a request's query may hold; others are refused, as in a body."""


class Page(Asked):
    """`?limit=&offset=`. Filters of a list are further fields."""

    limit: int = Field(50, ge=1, le=LARGEST_PAGE)
    offset: int = Field(0, ge=0, le=1_000_000_000)

    def of(self, rows: QuerySet[Any] | Sequence[Any]) -> dict[str, Any]:
        count = rows.count() if isinstance(rows, QuerySet) else len(rows)
        return {"items": list(rows[self.offset : self.offset + self.limit]), "count": count}


class Paged(Schema, Generic[T]):
    items: list[T]
    count: int = Field(description="How many there are in all.")


def _text_with_a_date(value: object) -> object:
    """A bare number would be taken for seconds since 1970."""
    if not isinstance(value, str) or "T" not in value.upper():
        raise ValueError("write a date and a time with its zone, as in 2026-01-31T12:00:00Z")
    return value


def _within_reach(value: datetime) -> datetime:
    """Near the ends of the calendar a change of zone leaves it."""
    if not 1970 <= value.year <= 9000:
        raise ValueError("write a year from 1970 to 9000")
    return value.astimezone(UTC)


Moment = Annotated[AwareDatetime, BeforeValidator(_text_with_a_date), AfterValidator(_within_reach)]
"""A point in time that names its zone."""
