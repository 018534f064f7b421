"""Sees rows saved and deleted, wherever that is done, and records it.

`QuerySet.update`, `bulk_create` and raw statements send no signal: `bulk` records what the registry
writes so, and `updated` is for the rest. A test lists every such place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save

from models_registry.audit import watched as tables
from models_registry.audit.watched import (
    ActionOf,
    Names,
    TeamOf,
    Values,
    Watched,
    no_action,
    no_team,
)
from models_registry.audit.writing import Changes, Entry, append

_BEFORE = "_audit_before"
_SET = "_audit_set"


def watch(
    model: type[Model],
    type: str,
    *,
    left_out: Iterable[str] = (),
    secret: Iterable[str] = (),
    sets: Sequence[str] = (),
    action: ActionOf = no_action,
    team: TeamOf = no_team,
) -> None:
    """From now on. `type` is how the trail calls a row; `sets` are its many-to-many fields."""
    watched = Watched(
        model, type, frozenset(left_out), frozenset(secret), action, team, tuple(sets)
    )
    tables.add(watched)
    _save_whole(model)
    for signal, receiver in (
        (pre_save, _before_save), (post_save, _after_save), (pre_delete, _before_delete),
    ):  # fmt: skip
        signal.connect(receiver, sender=model, dispatch_uid=f"audit.{type}.{receiver.__name__}")
    for each in tables.sets_of(watched):
        m2m_changed.connect(
            _set_changed, sender=each.remote_field.through, dispatch_uid=f"audit.{type}.{each.name}"
        )


def _save_whole(model: Any) -> None:
    """A save and its record are one transaction: Django opens none for a single statement."""
    original = model.save_base
    if getattr(original, "_audited", False):
        return

    @wraps(original)
    def save_base(self: Any, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic(using=kwargs.get("using"), savepoint=False):
            original(self, *args, **kwargs)

    save_base._audited = True  # type: ignore[attr-defined]
    model.save_base = save_base


# Rows one by one --------------------------------------------------------------------------


def _before_save(sender: Any, instance: Any, update_fields: Any, **_: Any) -> None:
    watched = tables.of(sender)
    before = watched.stored(instance.pk, update_fields) if instance.pk is not None else None
    setattr(instance, _BEFORE, before)


def _after_save(sender: Any, instance: Any, created: bool, **_: Any) -> None:
    watched, names = tables.of(sender), Names()
    before: Values | None = instance.__dict__.pop(_BEFORE, None)
    names.learn(watched.fields, [instance])
    if created or before is None:
        changes = watched.whole(instance, names, gone=False)
    else:
        changes = watched.difference(before, watched.values_of(instance), names)
        if not changes:
            return
    append([_entry(watched, instance, changes, made=created)])


def _before_delete(sender: Any, instance: Any, origin: Any = None, **_: Any) -> None:
    watched, names = tables.of(sender), Names()
    names.learn(watched.fields, [instance])
    changes = watched.whole(instance, names, gone=True)
    changes = {**changes, **_sets_told(watched, instance)}
    note = _owner(instance, origin) or _reason(instance)
    append([_entry(watched, instance, changes, gone=True, note=note)])


def _sets_told(watched: Watched, row: Any) -> Changes:
    found = {each.name: _members(row, each.name) for each in tables.sets_of(watched)}
    return {name: (members, []) for name, members in found.items() if members}


def _owner(row: Any, origin: Any) -> str:
    """With what it goes, when something else was deleted."""
    if origin is None or origin is row:
        return ""
    whole = origin.model if isinstance(origin, QuerySet) else type(origin)
    if whole is type(row):
        return ""
    return f"with the {whole._meta.verbose_name_raw} that it belonged to"


def _entry(
    watched: Watched,
    row: Any,
    changes: Changes,
    *,
    made: bool = False,
    gone: bool = False,
    note: str | None = None,
) -> Entry:
    usual = "deleted" if gone else "created" if made else "changed"
    action = "" if gone else watched.action(row, changes, made)
    said = _reason(row) if note is None else note
    return Entry(action or usual, watched.type, row.pk, str(row), changes, watched.team(row), said)


def _reason(row: Any) -> str:
    """What stands in its history."""
    return str(getattr(row, "_change_reason", "") or "")


# Sets of rows -----------------------------------------------------------------------------


def _set_changed(
    sender: Any, instance: Any, action: str, reverse: bool, model: Any, pk_set: Any, **_: Any
) -> None:
    """Told of the row that is watched for it; from the other side of those that are added."""
    name = _field_of(sender)
    if reverse:
        _told_of_others(instance, action, model, pk_set, name)
        return
    if action in ("pre_add", "pre_remove", "pre_clear"):
        setattr(instance, _SET, _members(instance, name))
        return
    before = instance.__dict__.pop(_SET, [])
    after = _members(instance, name)
    if before != after:
        watched = tables.of(type(instance))
        append([_entry(watched, instance, {name: (before, after)})])


def _told_of_others(instance: Any, action: str, model: Any, pk_set: Any, name: str) -> None:
    """`instance.the_others.add(…)`: each of the others has changed."""
    if action == "pre_clear":
        rows = list(model._base_manager.filter(**{name: instance.pk}))
        instance.__dict__[_SET] = {row.pk: _members(row, name) for row in rows}
    elif action in ("pre_add", "pre_remove"):
        rows = list(model._base_manager.filter(pk__in=pk_set))
        instance.__dict__[_SET] = {row.pk: _members(row, name) for row in rows}
    else:
        before = instance.__dict__.pop(_SET, {})
        watched, entries = tables.of(model), []
        for row in model._base_manager.filter(pk__in=before):
            after = _members(row, name)
            if after != before[row.pk]:
                entries.append(_entry(watched, row, {name: (before[row.pk], after)}))
        append(entries)


def _field_of(through: Any) -> str:
    """The watched field of that table in between."""
    for watched in tables.all_of_them().values():
        for each in tables.sets_of(watched):
            if each.remote_field.through is through:
                return each.name
    raise LookupError(f"{through} belongs to no watched table")


def _members(row: Any, name: str) -> list[str]:
    if row.pk is None:
        return []
    return sorted(str(each) for each in getattr(row, name).all())


# Many at once -----------------------------------------------------------------------------


def created_in_bulk(rows: Sequence[Any], note: str) -> None:
    append(_whole_rows(rows, note, gone=False))


def deleted_in_bulk(rows: Sequence[Any], note: str) -> None:
    """Before they go."""
    append(_whole_rows(rows, note, gone=True))


def _whole_rows(rows: Sequence[Any], note: str, *, gone: bool) -> list[Entry]:
    if not rows:
        return []
    watched, names = tables.of(type(rows[0])), Names()
    fields = watched.filled(rows)
    names.ask_all(fields, rows)
    entries = []
    for row in rows:
        changes = watched.whole(row, names, gone=gone, fields=fields)
        entries.append(_entry(watched, row, changes, made=not gone, gone=gone, note=note))
    return entries


def updated_in_bulk(rows: Sequence[Any], before: Mapping[Any, Values], note: str) -> None:
    """`before` by primary key, with the columns that are written."""
    if not rows:
        return
    watched, names = tables.of(type(rows[0])), Names()
    written = watched.only(next(iter(before.values())))
    names.ask_all(written, rows)
    entries = []
    for row in rows:
        changes = watched.difference(before[row.pk], watched.values_of(row, written), names)
        if changes:
            entries.append(_entry(watched, row, changes, note=note))
    append(entries)


def stored(rows: Sequence[Any], fields: Collection[str]) -> dict[Any, Values]:
    """Of rows that will be written in bulk, what `updated_in_bulk` wants to know."""
    watched = tables.of(type(rows[0]))
    wanted = [each.attname for each in watched.only(fields)]
    keys = [row.pk for row in rows]
    found: dict[Any, Values] = {}
    for start in range(0, len(keys), tables.BATCH):
        part = watched.model._base_manager.filter(pk__in=keys[start : start + tables.BATCH])
        for values in part.values("pk", *wanted):
            found[values.pop("pk")] = values
    return found


def updated(rows: QuerySet[Any], **values: Any) -> int:
    """`rows.update(**values)`, recorded."""
    with transaction.atomic():
        listed = list(rows)
        if not listed:
            return 0
        before = stored(listed, values)
        for row in listed:
            for name, value in values.items():
                setattr(row, name, value)
        updated_in_bulk(listed, before, "")
        count: int = rows.model._base_manager.filter(pk__in=before).update(**values)
    return count
