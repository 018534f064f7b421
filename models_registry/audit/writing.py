"""Writes the trail: each record in the transaction of what it tells of, so that neither is there
without the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection, transaction
from django.utils import timezone

from models_registry.audit import chain
from models_registry.audit.actors import Occasion, occasion
from models_registry.models import AuditRecord

Changes = Mapping[str, tuple[Any, Any]]
"""By field: the value before and after, as `masking.shown` leaves it."""

_encode = msgspec.json.Encoder().encode

_PARAMETERS = 20_000
"""Of one statement; SQLite takes 32,766, PostgreSQL 65,535."""
_COLUMNS = (*chain.COLUMNS, "digest")
_AT_ONCE = _PARAMETERS // len(_COLUMNS)


@dataclass(frozen=True, slots=True)
class Entry:
    """What was done to what. `team` is that whose leads may read it."""

    action: str
    type: str
    id: object
    name: str
    changes: Changes = field(default_factory=dict)
    team: int | None = None
    note: str = ""


def record(
    action: str,
    type: str,
    name: str,
    *,
    id: object = "",
    changes: Changes | None = None,
    team: int | None = None,
    note: str = "",
) -> None:
    """One of what changes no row of ours, or none that `watching` sees."""
    append([Entry(action, type, id, name, changes or {}, team, note)])


def append(entries: Sequence[Entry], *, prunes_through: int | None = None) -> None:
    if not entries:
        return
    found, at = occasion(), timezone.now()
    # One transaction writes at a time, on either database (docs/decisions/0027).
    with transaction.atomic(savepoint=False):
        number, digest = last_link()
        told = chain.moment(at)
        rows = [
            _values(entry, found, number + place, told, prunes_through)
            for place, entry in enumerate(entries, start=1)
        ]
        _insert(at, list(zip(rows, chain.chained(digest, rows), strict=True)))


def last_link() -> tuple[int, str]:
    """The newest record's number and digest."""
    rows = AuditRecord.objects.order_by("-number").values_list("number", "digest")
    return rows.first() or (0, chain.BEFORE_THE_FIRST)


def _values(
    entry: Entry, found: Occasion, number: int, at: str, prunes_through: int | None
) -> tuple[Any, ...]:
    """In the order of chain.COLUMNS, and as the columns hold it."""
    actor = found.actor
    note = "" if entry.note in found.reasons or entry.note == actor.name else entry.note
    id = "" if entry.id is None else str(entry.id)
    return (
        number,
        at,
        str(actor.kind),
        _text(actor.name, 200),
        actor.user,
        actor.key,
        str(found.door),
        _text(found.origin, 500),
        entry.action,
        entry.type,
        _text(id, 40),
        _text(entry.name, 250),
        entry.team,
        _encode(entry.changes).decode() if entry.changes else "{}",
        _text(note, 250),
        _text(found.request_id, 128),
        prunes_through,
    )


def _text(text: str, longest: int) -> str:
    """What every database takes: no NUL, no half of a surrogate pair."""
    if not text.isascii() or "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text[:longest]


def _insert(at: datetime, rows: Sequence[tuple[tuple[Any, ...], str]]) -> None:
    """What bulk_create does, for a fraction of its time: imports write thousands."""
    quote = connection.ops.quote_name
    columns = ", ".join(map(quote, _COLUMNS))
    marks = f"({', '.join(['%s'] * len(_COLUMNS))})"
    when = connection.ops.adapt_datetimefield_value(at)
    table = quote(AuditRecord._meta.db_table)
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            cursor.execute(
                f"INSERT INTO {table} ({columns}) VALUES {', '.join([marks] * len(part))}",
                [
                    value
                    for values, digest in part
                    for value in (values[0], when, *values[2:], digest)
                ],
            )
