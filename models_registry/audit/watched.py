"""Which tables the trail is about, and how their rows are told."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from django.db.models import Field, ForeignKey, JSONField, ManyToManyField, Model

from models_registry.audit.masking import shown
from models_registry.audit.writing import Changes
from models_registry.restricted import HIDDEN

Values = dict[str, Any]
"""A row's by column, as the database has them; a foreign key's is a primary key."""

BATCH = 500
"""Keys that one query names."""

Fields = Sequence["Field[Any, Any]"]

ActionOf = Callable[[Any, Changes, bool], str]
"""(row, what changed, whether it was made) → the action; empty: `created` or `changed`."""


TeamOf = Callable[[Any], "int | None"]


def no_action(row: Any, changes: Changes, made: bool) -> str:
    return ""


def no_team(row: Any) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Watched:
    """A table. `left_out` are fields that the machine writes, `secret` those whose values nobody
    may see. `team` says whose leads may read of a row."""

    model: type[Model]
    type: str
    left_out: frozenset[str]
    secret: frozenset[str]
    action: ActionOf
    team: TeamOf
    sets: tuple[str, ...]
    fields: tuple[Field[Any, Any], ...] = field(init=False)

    def __post_init__(self) -> None:
        kept = tuple(
            each
            for each in self.model._meta.concrete_fields
            if not each.primary_key and each.name not in self.left_out
        )
        object.__setattr__(self, "fields", kept)

    def values_of(self, row: Any, fields: Fields | None = None) -> Values:
        wanted = self.fields if fields is None else fields
        return {each.attname: _plain(each, getattr(row, each.attname)) for each in wanted}

    def filled(self, rows: Sequence[Any]) -> Fields:
        """The fields in which any of the rows holds more than a default: of thousands, few."""
        return [each for each in self.fields if _any_says(each, rows)]

    def stored(self, pk: object, only: Iterable[str] | None = None) -> Values | None:
        """As the database has them now; `only` those fields."""
        wanted = [each.attname for each in self.only(only)]
        rows = self.model._base_manager.filter(pk=pk).values(*wanted)
        return rows.first() if wanted else {}

    def only(self, names: Iterable[str] | None) -> Sequence[Field[Any, Any]]:
        if names is None:
            return self.fields
        wanted = set(names)
        return [each for each in self.fields if wanted & {each.name, each.attname}]

    def difference(self, before: Values, after: Values, names: Names) -> Changes:
        """By field; only what is in both."""
        told: dict[str, tuple[Any, Any]] = {}
        for each in self.fields:
            name = each.attname
            if name in before and name in after and before[name] != after[name]:
                told[each.name] = (
                    self._told(each, before[name], names),
                    self._told(each, after[name], names),
                )
        return told

    def whole(self, row: Any, names: Names, *, gone: bool, fields: Fields | None = None) -> Changes:
        """Of a row that was made, or is deleted: what it holds beyond its defaults."""
        told: dict[str, tuple[Any, Any]] = {}
        for each in self.fields if fields is None else fields:
            value = _plain(each, getattr(row, each.attname))
            if _says(value, _default(each)):
                known = self._told(each, value, names)
                told[each.name] = (known, None) if gone else (None, known)
        return told

    def _told(self, each: Field[Any, Any], value: Any, names: Names) -> Any:
        if value is None:
            return None
        if each.name in self.secret:
            return HIDDEN if value else ""
        if isinstance(each, ForeignKey):
            return names.of(each, value)
        if isinstance(value, datetime.datetime | datetime.date):
            return value.isoformat()
        return shown(each.name, value)


class Names:
    """What rows that others refer to are called; each is asked for once."""

    def __init__(self) -> None:
        self._known: dict[tuple[type[Model], Any], str] = {}

    def learn(self, fields: Iterable[Field[Any, Any]], rows: Sequence[Any]) -> None:
        """From what the rows hold already."""
        for each in _foreign(fields):
            for row in rows:
                near = row._state.fields_cache.get(each.name)
                if near is not None and near.pk == getattr(row, each.attname):
                    self._known[each.related_model, near.pk] = str(near)

    def ask_all(self, fields: Iterable[Field[Any, Any]], rows: Sequence[Any]) -> None:
        """One query for each field, and for each BATCH of rows."""
        self.learn(fields, rows)
        for each in _foreign(fields):
            keys = {getattr(row, each.attname) for row in rows}
            self.ask(each.related_model, keys - {None})

    def ask(self, model: Any, keys: Iterable[Any]) -> None:
        wanted = [key for key in keys if (model, key) not in self._known]
        for start in range(0, len(wanted), BATCH):
            found = model._base_manager.in_bulk(wanted[start : start + BATCH])
            self._known |= {(model, key): str(row) for key, row in found.items()}

    def of(self, each: ForeignKey[Any, Any], pk: Any) -> str:
        model: Any = each.related_model
        if (model, pk) not in self._known:
            self.ask(model, [pk])
        name = self._known.get((model, pk), "")
        return f"{name} (#{pk})" if name else f"#{pk}"


_watched: dict[type[Model], Watched] = {}


def add(watched: Watched) -> None:
    _watched[watched.model] = watched


def of(model: type[Model]) -> Watched:
    """Raises KeyError for a table that is not watched."""
    return _watched[model]


def all_of_them() -> Mapping[type[Model], Watched]:
    return _watched


def type_of(model: type[Model]) -> str:
    """How the trail calls its rows; empty for one that is not watched."""
    found = _watched.get(model)
    return found.type if found is not None else ""


def sets_of(watched: Watched) -> list[ManyToManyField[Any, Any]]:
    found = [watched.model._meta.get_field(name) for name in watched.sets]
    return [each for each in found if isinstance(each, ManyToManyField)]


def _plain(each: Field[Any, Any], value: Any) -> Any:
    """As it would come back from the database."""
    if value is None or isinstance(each, JSONField):
        return value
    if isinstance(each, ForeignKey):
        return value
    return each.to_python(value)


_UNSET = object()


def _foreign(fields: Iterable[Field[Any, Any]]) -> list[ForeignKey[Any, Any]]:
    return [each for each in fields if isinstance(each, ForeignKey)]


def _any_says(each: Field[Any, Any], rows: Sequence[Any]) -> bool:
    values: Any = map(attrgetter(each.attname), rows)
    default = _default(each)
    if not isinstance(each, JSONField):
        values = set(values)
    return any(_says(value, default) for value in values)


def _says(value: Any, default: Any) -> bool:
    return not (value is None or value == "" or value == default)


def _default(each: Field[Any, Any]) -> Any:
    return each.get_default() if each.has_default() else _UNSET
