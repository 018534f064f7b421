"""Rows for every table of a state of the migrations, whatever its columns are, and what became of
them in another state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    AutoField,
    BooleanField,
    CharField,
    DateTimeField,
    Field,
    FloatField,
    ForeignKey,
    IntegerField,
    JSONField,
    Model,
    TextField,
    UUIDField,
)

BEGIN = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
Row = dict[str, Any]
Contents = Mapping[str, Mapping[Any, Row]]
"""The rows of each table by their keys."""


def fill(models: Sequence[type[Model]], rows: int, given: Mapping[str, Any]) -> None:
    """`rows` of each; `given` has values for `model.column` that have to obey a rule."""
    waiting, made = list(models), dict[type[Model], list[Model]]()
    while waiting:
        ready = [model for model in waiting if _needed(model, models) <= made.keys()]
        assert ready, f"these need each other: {waiting}"
        for model in ready:
            made[model] = [_made(model, number, made, given) for number in range(rows)]
            waiting.remove(model)


def contents(models: Iterable[type[Model]]) -> Contents:
    return {
        model._meta.label: {
            row[model._meta.pk.attname]: row for row in model._base_manager.values()
        }
        for model in models
    }


def differences(before: Contents, after: Contents, gone: Collection[str] = ()) -> list[str]:
    """What of `before` is not in `after`. Columns may have come; `gone` are those that were taken
    away on purpose, `app.Model.column`."""
    return [
        f"{label} {key}: {found}"
        for label, rows in before.items()
        for key, row in rows.items()
        for found in _missing(label, row, after.get(label, {}).get(key), gone)
    ]


def _missing(label: str, row: Row, now: Row | None, gone: Collection[str]) -> Iterator[str]:
    if now is None:
        yield "is lost"
        return
    for column, value in row.items():
        if f"{label}.{column}" not in gone and (column not in now or now[column] != value):
            yield f"{column} was {value!r}, is {now.get(column, 'no column')!r}"


def _needed(model: type[Model], among: Sequence[type[Model]]) -> set[type[Model]]:
    """Whose rows it points to. To itself it points with nothing."""
    targets = {
        field.related_model
        for field in model._meta.concrete_fields
        if isinstance(field, ForeignKey) and not field.null
    }
    return {each for each in targets if each in among and each is not model}  # type: ignore[misc]


def _made(
    model: type[Model],
    number: int,
    made: Mapping[type[Model], list[Model]],
    given: Mapping[str, Any],
) -> Model:
    values = {}
    for field in model._meta.concrete_fields:
        name = f"{model.__name__}.{field.name}"
        if name in given:
            values[field.attname] = given[name]
        elif isinstance(field, ForeignKey):
            rows = made.get(field.related_model, [])  # type: ignore[arg-type]
            values[field.attname] = rows[number % len(rows)].pk if rows else None
        elif not isinstance(field, AutoField):
            values[field.attname] = _value(field, number)
    row = model(**values)
    row.save()
    # Columns that Django fills in at a save (auto_now) are part of what must be kept
    stamps = {f.attname: values[f.attname] for f in _stamps(model)}
    if stamps:
        model._base_manager.filter(pk=row.pk).update(**stamps)
    return row


def _stamps(model: type[Model]) -> list[Field[Any, Any]]:
    fields = model._meta.concrete_fields
    return [f for f in fields if isinstance(f, DateTimeField) and (f.auto_now or f.auto_now_add)]


def _value(field: Field[Any, Any], number: int) -> Any:
    if field.choices:
        named = [value for value, _ in field.flatchoices]
        return named[number % len(named)]
    match field:
        case BooleanField():
            return number % 2 == 0
        case IntegerField():
            return number + 1
        case FloatField():
            return number + 1.0625
        case DateTimeField():
            return BEGIN + timedelta(days=number)
        case JSONField():
            empty = field.get_default()
            return [f"größe {number}"] if isinstance(empty, list) else {"größe": number}
        case UUIDField():
            return UUID(int=number + 1)
        case CharField() | TextField():
            longest = field.max_length or 1000
            return f"{number}ß\n{'x' * longest}"[:longest] if longest > 2 else "+"
    raise AssertionError(f"{field} is of a kind that nobody has filled yet")
