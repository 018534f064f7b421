"""Records as rows. Whatever a record holds, the database takes it.

The rows are written by one prepared statement: objects of the model and `bulk_create` cost four
times the processor for each record, and every answer makes one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from django.db import connection

from proxy.models import UsageContent, UsageRecord
from proxy.usage.record import Record

_FIELDS = [field for field in UsageRecord._meta.concrete_fields if not field.primary_key]
_LONGEST = [(field.name, field.max_length) for field in _FIELDS if field.max_length]
_AT = [field.name for field in _FIELDS].index("at")
_values = attrgetter(*(field.name for field in _FIELDS))


def began(record: Record) -> datetime:
    return datetime.fromtimestamp(record.at, UTC)


def fit(record: Record) -> None:
    """Its texts become what the columns take."""
    for name, longest in _LONGEST:
        text = getattr(record, name)
        if len(text) > longest or "\0" in text:
            setattr(record, name, _text(text, longest))


def insert_rows(records: Iterable[Record]) -> None:
    """Of records that fit. Raises what the database says, and in a transaction then none is."""
    quote = connection.ops.quote_name
    names = ", ".join(quote(str(field.column)) for field in _FIELDS)
    places = ", ".join(["%s"] * len(_FIELDS))
    statement = f"INSERT INTO {quote(UsageRecord._meta.db_table)} ({names}) VALUES ({places})"
    with connection.cursor() as cursor:
        cursor.executemany(statement, [_row(record) for record in records])


def insert_contents(records: Iterable[Record]) -> None:
    """What was asked and answered, of those whose rows are in the database already."""
    kept = [record for record in records if record.content is not None]
    if not kept:
        return
    names = [record.record for record in kept]
    ids = dict(UsageRecord.objects.filter(record__in=names).values_list("record", "id"))
    UsageContent.objects.bulk_create(_content(record, ids[record.record]) for record in kept)


def _row(record: Record) -> list[Any]:
    values = list(_values(record))
    values[_AT] = connection.ops.adapt_datetimefield_value(began(record))
    return values


def _content(record: Record, usage: int) -> UsageContent:
    content = record.content
    assert content is not None
    prompt, answer = _text(content.prompt), _text(content.answer)
    return UsageContent(
        usage_id=usage,
        team_id=record.team_id,
        at=began(record),
        prompt=prompt,
        answer=answer,
        cut=content.cut,
    )


def _text(text: str, longest: int | None = None) -> str:
    """NUL is no text for PostgreSQL."""
    return text.replace("\0", "")[:longest]
