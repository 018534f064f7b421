"""The registry's rows as programs find and change them: checked by the rules of the admin's forms,
whole or not at all, and told to the history with who asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model, ProtectedError, QuerySet

from models_registry import history
from models_registry.access import Asker
from models_registry.cloning import clone
from models_registry.errors import ManagementRefused
from models_registry.measurements import of_preset
from models_registry.model_paths import files_state
from models_registry.models import Alias, Group, Measurement, ModelFile, Preset
from models_registry.restricted import RESTRICTED
from models_registry.tags import joined

Row = TypeVar("Row", bound=Model)


# What there is ----------------------------------------------------------------------------


def model_files() -> QuerySet[ModelFile]:
    return ModelFile.objects.prefetch_related("presets").order_by("path")


def presets() -> QuerySet[Preset]:
    rows = Preset.objects.select_related("model_file", "base", "group")
    return rows.prefetch_related("aliases", "profiles").order_by("name")


def aliases() -> QuerySet[Alias]:
    return Alias.objects.select_related("preset").order_by("name")


def model_file_by_id(id: int) -> ModelFile:
    found = model_files().filter(pk=id).first()
    if found is None:
        raise ManagementRefused("not_found", f"There is no model file {id}.")
    return found


def preset_named(name: str) -> Preset:
    """By its own name: an alias is said to be one, so that nobody edits by it unawares."""
    found = presets().filter(name=name).first()
    if found is not None:
        return found
    alias = aliases().filter(name=name).first()
    if alias is not None:
        message = f"{name!r} is an alias: the preset is {alias.preset.name!r}."
    else:
        message = f"No preset is called {name!r}."
    raise ManagementRefused("model_not_found", message)


def alias_named(name: str) -> Alias:
    found = aliases().filter(name=name).first()
    if found is None:
        raise ManagementRefused("not_found", f"No alias is called {name!r}.")
    return found


def measurements(preset: str = "", state: str | None = None) -> QuerySet[Measurement]:
    """The newest first. With a preset, the one that counts for it as it is now, if there is one."""
    rows = Measurement.objects.order_by("-id")
    if preset:
        found = of_preset(preset_named(preset))
        rows = rows.filter(pk=found.pk) if found is not None else rows.none()
    return rows.filter(state=state) if state else rows


def measurement_by_id(id: int) -> Measurement:
    found = Measurement.objects.filter(pk=id).first()
    if found is None:
        raise ManagementRefused("not_found", f"There is no measurement {id}.")
    return found


# What can be done to it -------------------------------------------------------------------


def add_model_file(fields: Mapping[str, Any], asker: Asker) -> ModelFile:
    added = ModelFile(**fields)
    added.full_clean()
    added.size = files_state(added.path).size
    return _saved(added, asker)


def delete_model_file(id: int, asker: Asker, *, cascade: bool) -> None:
    with transaction.atomic():
        row = model_file_by_id(id)
        names = [preset.name for preset in row.presets.all()]
        if names and not cascade:
            raise ManagementRefused(
                "conflict",
                f"Presets run this file: {', '.join(names)}. Delete them first, or ask with "
                "cascade=true to delete them as well.",
            )
        _deleted(row, asker)


def change_model_file(id: int, changes: Mapping[str, Any], asker: Asker) -> ModelFile:
    with transaction.atomic():
        row = _locked(model_file_by_id(id))
        for field, value in changes.items():
            setattr(row, field, value)
        _saved(row, asker)
    return model_file_by_id(id)


def create_preset(fields: Mapping[str, Any], asker: Asker) -> Preset:
    _check_restricted(Preset(), fields, asker)
    with transaction.atomic():
        return preset_named(_saved(Preset(**_with_rows(fields)), asker).name)


def clone_preset(name: str, new_name: str, asker: Asker) -> Preset:
    """Empty `new_name`: one that is free."""
    return preset_named(clone(preset_named(name), new_name, reason=asker.label).name)


def change_preset(
    name: str, changes: Mapping[str, Any], asker: Asker, *, version: int | None = None
) -> Preset:
    """With `version`, only if nobody has changed it since that one was read."""
    with transaction.atomic():
        preset = _locked(preset_named(name))
        _take(preset, changes, asker, version)
        _saved(preset, asker)
        keep_old_name(preset, name, asker)
    return preset_named(preset.name)


def edited_preset(
    name: str | None, changes: Mapping[str, Any], asker: Asker, *, version: int | None = None
) -> Preset:
    """As it would be with these changes, or a new one of them; nothing is saved. A new one need not
    have a name yet. Raises what saving it would."""
    preset = preset_named(name) if name is not None else Preset()
    _take(preset, changes, asker, version)
    preset.full_clean(exclude=() if preset.name else ("name",))
    return preset


def keep_old_name(preset: Preset, old_name: str, asker: Asker) -> None:
    """A renamed preset keeps its old name as an alias: clients go on with it."""
    if preset.name != old_name:
        _saved(Alias(name=old_name, preset=preset), asker)


def delete_preset(name: str, asker: Asker) -> None:
    with transaction.atomic():
        _deleted(preset_named(name), asker)


def create_alias(
    name: str, preset: str, asker: Asker, *, request_set: Mapping[str, Any] | None = None
) -> Alias:
    with transaction.atomic():
        alias = Alias(name=name, preset=_row("preset", Preset, name=preset), request_set=dict(request_set or {}))
        return _saved(alias, asker)


def create_group(fields: Mapping[str, Any], asker: Asker) -> Group:
    return _saved(Group(**fields), asker)


def change_alias(name: str, changes: Mapping[str, Any], asker: Asker) -> Alias:
    with transaction.atomic():
        alias = _locked(alias_named(name))
        alias.name = changes.get("name", alias.name)
        alias.request_set = changes.get("request_set", alias.request_set)
        if "preset" in changes:
            alias.preset = _row("preset", Preset, name=changes["preset"])
        return _saved(alias, asker)


def delete_alias(name: str, asker: Asker) -> None:
    with transaction.atomic():
        _deleted(alias_named(name), asker)


# How ----------------------------------------------------------------------------------------


def _saved(row: Row, asker: Asker) -> Row:
    """Raises ValidationError with every fault; then nothing of it is kept. What is so already makes
    no version."""
    with transaction.atomic():
        row.full_clean()
        if not row._state.adding and not history.differences(_locked(row), row):
            return row
        row._change_reason = asker.label  # type: ignore[attr-defined]  # simple_history reads it
        row.save()
    return row


def _deleted(row: Model, asker: Asker) -> None:
    row._change_reason = asker.label  # type: ignore[attr-defined]
    try:
        row.delete()
    except ProtectedError as error:
        heirs = ", ".join(sorted(str(heir) for heir in error.protected_objects))
        raise ManagementRefused(
            "conflict", f"It is the base of {heirs}: give them another base first, or none."
        ) from error


def _locked(row: Row) -> Row:
    """As it is now, and no one else's to change until the transaction ends."""
    rows = type(row)._default_manager.select_for_update()
    return rows.get(pk=row.pk)


def _take(preset: Preset, changes: Mapping[str, Any], asker: Asker, version: int | None) -> None:
    if version is not None and version != preset.version:
        raise ManagementRefused("conflict", _who_was_faster(preset, version), "version")
    _check_restricted(preset, changes, asker)
    for field, value in _with_rows(changes).items():
        setattr(preset, field, value)


def _check_restricted(before: Preset, changes: Mapping[str, Any], asker: Asker) -> None:
    """See models_registry.restricted."""
    for field in () if asker.everything else RESTRICTED:
        was = getattr(before, field)
        if changes.get(field, was) != was:
            label = before._meta.get_field(field).verbose_name
            raise ManagementRefused(
                "permission_denied",
                f"Only superusers and admin keys may change the {label}.",
                field,
            )


def _with_rows(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`model_file` comes as an id, `base` and `group` as names, words as lists."""
    values = dict(fields)
    if "model_file" in values:
        values["model_file"] = _row("model_file", ModelFile, pk=values["model_file"])
    if values.get("base") is not None:
        values["base"] = _row("base", Preset, name=values["base"])
    if values.get("group") is not None:
        values["group"] = _row("group", Group, name=values["group"])
    for field in {"tags", "request_strip"} & values.keys():
        values[field] = joined(values[field])
    return values


def _row(field: str, model: type[Row], **wanted: Any) -> Row:
    row = model._default_manager.filter(**wanted).first()
    if row is None:
        (value,) = wanted.values()
        name = model._meta.verbose_name
        told = f"There is no {name} {value}." if "pk" in wanted else f"No {name} is called {value!r}."
        raise ManagementRefused("validation_failed", told, field)
    return row


def _who_was_faster(preset: Preset, version: int) -> str:
    later = history.since(preset, version) if version < preset.version else []
    done = "; ".join(map(str, later))
    since = f" since version {version}: {done}" if done else ""
    return f"{preset.name} is at version {preset.version}{since}. Read it again, then change it."
