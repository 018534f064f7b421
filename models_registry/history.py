"""Versions of a row: what changed in each, and going back to one.

django-simple-history writes them, one row of a history table for each save and each delete. A
`record` is such a row; it has no types of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Field, ForeignKey, ManyToManyField, Max, Model, QuerySet
from django.db.models.signals import pre_delete
from django.utils import timezone
from django.utils.translation import gettext as _

from models_registry.models import Alias, ModelFile, Preset
from models_registry.restricted import masked

Record = Any

WITH_ITS_OWNER = "deleted with what it belonged to"
"""The reason kept with a row that went because another one was deleted."""

_UNTOLD = frozenset({"version"})  # every save raises it
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Change:
    """One field of a row, before and after, for people. `name` is the field's own."""

    name: str
    label: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.label} from {self.old} to {self.new}"


@dataclass(frozen=True, slots=True)
class Version:
    """One record, and what it changed; a first one changed nothing."""

    record: Record
    changes: tuple[Change, ...] = ()

    @property
    def what(self) -> str:
        words = {"+": _("added"), "~": _("changed"), "-": _("deleted")}
        return words[self.record.history_type]

    @property
    def who(self) -> str:
        """Empty when it was the machine: a rescan, or a command."""
        user = self.record.history_user
        return str(user) if user is not None else ""

    def __str__(self) -> str:
        """Who, what and when, to stand in a sentence."""
        who = self.who or self.record.history_change_reason or _("a command or a rescan")
        told = ", ".join(map(str, self.changes)) or _("nothing that counts")
        named = {"who": who, "changes": told, "at": moment(self.record)}
        return _("%(who)s changed %(changes)s (%(at)s)") % named


def moment(record: Record) -> str:
    return f"{timezone.localtime(record.history_date):%Y-%m-%d %H:%M:%S %Z}"


def records_of(model: type[Model], pk: object) -> QuerySet[Any]:
    """Every record of one row, the newest first; also of a row that is gone."""
    history: Any = getattr(model, "history")  # noqa: B009 - the manager that HistoricalRecords adds
    records: QuerySet[Any] = history.filter(**{key_of(model): pk})
    return records.select_related("history_user").order_by("-history_id")


def versions(records: Sequence[Record], before: Record | None) -> list[Version]:
    """`records`, the newest first, each with what it changed; `before` is the one that came before
    the last of them."""
    shown = _Shown()
    olds = [*records[1:], before]
    return [
        Version(record, shown.changes(old, record) if old is not None else ())
        for record, old in zip(records, olds, strict=True)
    ]


def differences(old: Any, new: Any) -> tuple[Change, ...]:
    """Between two of a row and its records."""
    return _Shown().changes(old, new)


def since(preset: Preset, version: int) -> list[Version]:
    """What was done to the preset after `version`, the oldest first."""
    records = list(records_of(Preset, preset.pk).filter(version__gt=version))
    done = versions(records, at_version(preset, version))
    return done[::-1]


def at_version(preset: Preset, version: int) -> Record | None:
    return records_of(Preset, preset.pk).filter(version=version).first()


def tracked(model: type[Model]) -> list[Field[Any, Any]]:
    """The fields that a record keeps and that are worth a word, without the key."""
    history: Any = getattr(model, "history")  # noqa: B009
    return [
        field
        for field in history.model.tracked_fields
        if not field.primary_key and field.name not in _UNTOLD
    ]


def members(model: type[Model]) -> tuple[ManyToManyField[Any, Any], ...]:
    """The fields that hold several rows and that a record keeps."""
    history: Any = getattr(model, "history")  # noqa: B009
    return tuple(getattr(history.model, "_history_m2m_fields", ()))


def members_of(row: Any, field: ManyToManyField[Any, Any]) -> list[int]:
    """The primary keys in `field` of a row or of a record."""
    if not hasattr(row, "history_id"):
        rows = getattr(row, field.name) if row.pk is not None else None
        return sorted(rows.values_list("pk", flat=True)) if rows is not None else []
    if row.history_type == "-":  # what a deleted row held is in the record before
        before = records_of(row.instance_type, getattr(row, key_of(row.instance_type)))
        row = before.filter(history_id__lt=row.history_id).first() or row
    key = f"{field.m2m_reverse_field_name()}_id"
    return sorted(getattr(row, field.name).values_list(key, flat=True))


def put_members(row: Any, record: Record) -> None:
    """As they were then, but for those that are deleted by now."""
    for field in members(record.instance_type):
        keys = members_of(record, field)
        there: Any = field.related_model
        getattr(row, field.name).set(there._default_manager.filter(pk__in=keys))


def values_of(record: Record) -> list[tuple[str, str]]:
    """(field, value) for people, without what is unset."""
    shown = _Shown()
    model = record.instance_type
    pairs: list[tuple[Any, str]] = [(each, shown.value(each, record)) for each in tracked(model)]
    pairs += [(each, shown.members(each, members_of(record, each))) for each in members(model)]
    return [(str(field.verbose_name), value) for field, value in pairs if value != _("unset")]


class _Shown:
    """Values as people read them. Asks once for each row that a foreign key names."""

    def __init__(self) -> None:
        self._rows: dict[tuple[type[Model], Any], str] = {}

    def changes(self, old: Any, new: Any) -> tuple[Change, ...]:
        model: type[Model] = getattr(old, "instance_type", getattr(new, "instance_type", type(new)))
        found = [
            Change(
                field.name, str(field.verbose_name), self.value(field, old), self.value(field, new)
            )
            for field in tracked(model)
            if getattr(old, field.attname) != getattr(new, field.attname)
        ]
        for field in members(model):
            before, after = members_of(old, field), members_of(new, field)
            if before != after:
                texts = self.members(field, before), self.members(field, after)
                found.append(Change(field.name, str(field.verbose_name), *texts))
        return tuple(found)

    def members(self, field: ManyToManyField[Any, Any], keys: Sequence[int]) -> str:
        model: Any = field.related_model
        found = model._default_manager.in_bulk(list(keys))
        names = sorted(str(row) for row in found.values())
        if gone := len(keys) - len(found):
            names.append(_("%(count)s that were deleted") % {"count": gone})
        text = ", ".join(names) or _("unset")
        return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"

    def value(self, field: Field[Any, Any], row: Any) -> str:
        value = getattr(row, field.attname)
        if value is None or value in ("", {}, []):
            return _("unset")
        if field.name == "environment":
            value = masked(value)
        if field.name == "upstream_key":
            value = _("kept as %(mark)s") % {"mark": value[:8]}
        if isinstance(value, bool):
            return _("yes") if value else _("no")
        if isinstance(field, ForeignKey):
            return self._row(field.related_model, value)
        if hasattr(value, "tzinfo"):
            return f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S %Z}"
        if isinstance(value, dict | list):
            text = json.dumps(value, ensure_ascii=False)
        else:
            text = str(dict(field.flatchoices).get(value, value))
        return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"

    def _row(self, model: Any, pk: Any) -> str:
        if (model, pk) not in self._rows:
            row = model._default_manager.filter(pk=pk).first()
            gone = _("a %(kind)s that was deleted") % {"kind": model._meta.verbose_name}
            self._rows[model, pk] = str(row) if row is not None else gone
        return self._rows[model, pk]


# Going back -------------------------------------------------------------------------------


def row_as_it_was(record: Record, live: Model | None) -> Any:
    """`live` with the record's values in all that people edit, or, when it is gone, the whole row
    as it was. Neither checked nor saved."""
    model = record.instance_type
    if live is None:
        row = record.instance
        if isinstance(row, Preset):
            last = records_of(model, row.pk).aggregate(last=Max("version"))["last"]
            row.version = last or row.version  # a save raises it: versions never return
        return row
    for field in tracked(model):
        if field.editable:
            setattr(live, field.attname, getattr(record, field.attname))
    return live


def check_owner(row: Any) -> None:
    """Raises ValidationError when what the row belongs to is gone."""
    for field in tracked(type(row)):
        if not isinstance(field, ForeignKey) or getattr(row, field.attname) is None:
            continue
        owner: Any = field.related_model
        if not owner._default_manager.filter(pk=getattr(row, field.attname)).exists():
            name = owner._meta.verbose_name
            raise ValidationError(f"Its {name} was deleted: bring that {name} back first.")


def deleted(model: type[Model], limit: int = 200) -> list[Record]:
    """The last record of each row that is gone, the latest first."""
    return list(_last_records(model)[:limit])


def _last_records(model: type[Model]) -> QuerySet[Any]:
    history: Any = getattr(model, "history")  # noqa: B009
    key = key_of(model)
    live = {f"{key}__in": model._default_manager.values("pk")}
    gone = history.filter(history_type="-").exclude(**live)
    last = gone.order_by().values(key).annotate(last=Max("history_id")).values("last")
    records: QuerySet[Any] = history.filter(history_id__in=last)
    return records.select_related("history_user").order_by("-history_id")


def lost_aliases(preset: Preset) -> Iterable[Alias]:
    """Those that went with the preset when it was deleted, unless their name is taken by now."""
    gone = _last_records(Alias).filter(preset_id=preset.pk, history_change_reason=WITH_ITS_OWNER)
    for record in gone:
        names = {"name": record.name}
        if not (Alias.objects.filter(**names).exists() or Preset.objects.filter(**names).exists()):
            yield record.instance


def key_of(model: type[Model]) -> str:
    """The primary key's attribute, in the row and in its records."""
    assert model._meta.pk is not None
    return model._meta.pk.attname


def _goes(sender: type[Model], instance: Any, origin: Any = None, **_: Any) -> None:
    whole = origin.model if isinstance(origin, QuerySet) else type(origin)
    if origin is not None and whole is not sender:
        instance._change_reason = WITH_ITS_OWNER


def connect() -> None:
    """Called once, when Django is ready."""
    for model in (ModelFile, Preset, Alias):
        pre_delete.connect(_goes, sender=model, dispatch_uid=f"history.{model.__name__}")
