"""Many rows written in few statements, each with its version in the history and its audit record.

Bulk writes send no signal: what signals would do (the revision is raised, headers are read) is done
here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import Model
from django.utils import timezone

from models_registry.audit.watching import (
    created_in_bulk,
    deleted_in_bulk,
    stored,
    updated_in_bulk,
)
from models_registry.history import WITH_ITS_OWNER
from models_registry.indexing import index_soon
from models_registry.models import Alias, FileMetadata, ModelFile, Preset
from models_registry.revision import bump

BATCH = 500
"""Rows of one statement, where it names them: it takes so many parameters and no more."""


_PARAMETERS = 20_000
"""Of one statement; SQLite takes 32,766, PostgreSQL 65,535."""


def create(rows: Iterable[Any], reason: str) -> None:
    """They get their keys."""
    made = list(rows)
    if not made:
        return
    model = type(made[0])
    with transaction.atomic():
        for row in made:
            if isinstance(row, Preset):
                row.version = 1  # as the first save would make it
        _insert(model, made)
        created_in_bulk(made, reason)
        _record(model, [row.pk for row in made], "+", reason)
        _tell(model)


def update(rows: Sequence[Any], fields: Collection[str], reason: str) -> None:
    """Only `fields` are written."""
    if not rows:
        return
    model = type(rows[0])
    written = set(fields)
    with transaction.atomic():
        if model is Preset:
            written.add("version")
            for row in rows:
                row.version += 1
        updated_in_bulk(rows, stored(rows, fields), reason)
        _write(model, rows, sorted(written))
        _record(model, [row.pk for row in rows], "~", reason)
        _tell(model)


def delete_presets(keys: Collection[int], reason: str) -> None:
    """With their aliases. None of them may be the base of another one, or in a profile."""
    if not keys:
        return
    with transaction.atomic():
        theirs = [
            key
            for part in batches(keys)
            for key in Alias.objects.filter(preset__in=part).values_list("pk", flat=True)
        ]
        _delete(Alias, theirs, WITH_ITS_OWNER)
        _delete(Preset, keys, reason)
        bump()


def delete_aliases(keys: Collection[int], reason: str) -> None:
    if keys:
        with transaction.atomic():
            _delete(Alias, keys, reason)
            bump()


def delete_model_files(keys: Collection[int], reason: str) -> None:
    """No preset may run one of them."""
    if not keys:
        return
    with transaction.atomic():
        for part in batches(keys):
            FileMetadata.objects.filter(pk__in=part).delete()
        _delete(ModelFile, keys, reason)
        bump()


def batches(values: Iterable[Any]) -> Iterator[list[Any]]:
    wanted = list(values)
    return (wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH))


def _tell(model: type[Model]) -> None:
    bump()
    if model is ModelFile:
        index_soon()


def _delete(model: type[Model], keys: Collection[int], reason: str) -> None:
    _record(model, keys, "-", reason)
    for part in batches(keys):
        rows: Any = model._default_manager.filter(pk__in=part)
        deleted_in_bulk(list(rows), reason)
        rows._raw_delete(rows.db)


def _insert(model: Any, rows: Sequence[Any]) -> None:
    """What bulk_create does, for a third of its time: of thousands of new rows most columns hold
    the same value, which is made ready for the database once."""
    quote, meta = connection.ops.quote_name, model._meta
    fields = [field for field in meta.concrete_fields if not field.primary_key]
    columns = ", ".join(quote(field.column) for field in fields)
    marks = f"({', '.join(['%s'] * len(fields))})"
    values = list(zip(*(_ready(field, rows) for field in fields), strict=True))
    at_once = max(1, _PARAMETERS // len(fields))
    keys: list[int] = []
    with connection.cursor() as cursor:
        for start in range(0, len(values), at_once):
            part = values[start : start + at_once]
            cursor.execute(
                f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES "
                f"{', '.join([marks] * len(part))} RETURNING {quote(meta.pk.column)}",
                [value for row in part for value in row],
            )
            keys += [key for (key,) in cursor.fetchall()]
    for row, key in zip(rows, keys, strict=True):
        row.pk = key
        row._state.adding = False
        row._state.db = connection.alias


def _write(model: Any, rows: Sequence[Any], names: Sequence[str]) -> None:
    quote, meta = connection.ops.quote_name, model._meta
    fields = [meta.get_field(name) for name in names]
    places = ", ".join(f"{quote(field.column)} = %s" for field in fields)
    values = zip(*(_ready(field, rows) for field in fields), strict=True)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {quote(meta.db_table)} SET {places} WHERE {quote(meta.pk.column)} = %s",
            [(*row, each.pk) for row, each in zip(values, rows, strict=True)],
        )


def _ready(field: Any, rows: Sequence[Any]) -> list[Any]:
    """One value for each row, as the database takes it."""
    values = [getattr(row, field.attname) for row in rows]
    first = values[0]
    if all(value is first or value == first for value in values):
        return [field.get_db_prep_save(first, connection)] * len(values)
    return [field.get_db_prep_save(value, connection) for value in values]


def _record(model: Any, keys: Iterable[int], kind: str, reason: str) -> None:
    """What simple_history writes for each row: the row as it is now, copied inside the database.
    Its own way builds, converts and sends each value once more."""
    history = model.history.model
    quote, meta = connection.ops.quote_name, model._meta
    columns = ", ".join(quote(field.column) for field in history.tracked_fields)
    user = history.get_default_history_user(None)
    values = {
        "history_date": connection.ops.adapt_datetimefield_value(timezone.now()),
        "history_type": kind,
        "history_change_reason": reason,
        "history_user_id": user.pk if user is not None else None,
    }
    into = ", ".join(map(quote, values))
    marks = ", ".join(["%s"] * len(values))
    key = quote(meta.pk.column)
    with connection.cursor() as cursor:
        for part in batches(keys):
            cursor.execute(
                f"INSERT INTO {quote(history._meta.db_table)} ({columns}, {into}) "
                f"SELECT {columns}, {marks} FROM {quote(meta.db_table)} "
                f"WHERE {key} IN ({', '.join(['%s'] * len(part))}) ORDER BY {key}",
                [*values.values(), *part],
            )
