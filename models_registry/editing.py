"""The registry's rows as programs find and change them: checked by the rules of the admin's forms,
whole or not at all, and told to the history with who asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet, RestrictedError

from models_registry import history, kept_secrets, upstream_keys
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
    headers = ModelFile.objects.select_related("metadata").defer("metadata__chat_template")
    return headers.prefetch_related("presets").order_by("path")


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
    return saved(added, asker)


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
        deleted(row, asker)


def change_model_file(id: int, changes: Mapping[str, Any], asker: Asker) -> ModelFile:
    with transaction.atomic():
        row = locked(model_file_by_id(id))
        for field, value in changes.items():
            setattr(row, field, value)
        saved(row, asker)
    return model_file_by_id(id)


def create_preset(fields: Mapping[str, Any], asker: Asker) -> Preset:
    check_restricted(Preset(), fields, asker)
    with _key_kept(fields) as known, transaction.atomic():
        return preset_named(saved(Preset(**_with_rows(known)), asker).name)


def clone_preset(name: str, new_name: str, asker: Asker) -> Preset:
    """Empty `new_name`: one that is free."""
    return preset_named(clone(preset_named(name), new_name, reason=asker.label).name)


def change_preset(
    name: str, changes: Mapping[str, Any], asker: Asker, *, version: int | None = None
) -> Preset:
    """With `version`, only if nobody has changed it since that one was read."""
    with _key_kept(changes) as known, transaction.atomic():
        preset = locked(preset_named(name))
        _take(preset, known, asker, version)
        saved(preset, asker)
        keep_old_name(preset, name, asker)
    return preset_named(preset.name)


def edited_preset(
    name: str | None, changes: Mapping[str, Any], asker: Asker, *, version: int | None = None
) -> Preset:
    """As it would be with these changes, or a new one of them; nothing is saved. A new one need not
    have a name yet. Raises what saving it would."""
    preset = preset_named(name) if name is not None else Preset()
    without_key = {field: value for field, value in changes.items() if field != "upstream_key"}
    _take(preset, without_key, asker, version)
    preset.full_clean(exclude=() if preset.name else ("name",))
    return preset


def keep_old_name(preset: Preset, old_name: str, asker: Asker) -> None:
    """A renamed preset keeps its old name as an alias: clients go on with it."""
    if preset.name != old_name:
        saved(Alias(name=old_name, preset=preset), asker)


def delete_preset(name: str, asker: Asker) -> None:
    with transaction.atomic():
        deleted(preset_named(name), asker)


def create_alias(
    name: str, preset: str, asker: Asker, *, request_set: Mapping[str, Any] | None = None
) -> Alias:
    with transaction.atomic():
        alias = Alias(
            name=name,
            preset=row_named("preset", Preset, preset),
            request_set=dict(request_set or {}),
        )
        return saved(alias, asker)


def create_group(fields: Mapping[str, Any], asker: Asker) -> Group:
    return saved(Group(**fields), asker)


def change_alias(name: str, changes: Mapping[str, Any], asker: Asker) -> Alias:
    with transaction.atomic():
        alias = locked(alias_named(name))
        alias.name = changes.get("name", alias.name)
        alias.request_set = changes.get("request_set", alias.request_set)
        if "preset" in changes:
            alias.preset = row_named("preset", Preset, changes["preset"])
        return saved(alias, asker)


def delete_alias(name: str, asker: Asker) -> None:
    with transaction.atomic():
        deleted(alias_named(name), asker)


# How ----------------------------------------------------------------------------------------


def saved(row: Row, asker: Asker) -> Row:
    """Raises ValidationError with every fault; then nothing of it is kept. What is so already makes
    no version."""
    with transaction.atomic():
        row.full_clean()
        if not row._state.adding and not history.differences(locked(row), row):
            return row
        row._change_reason = asker.label  # type: ignore[attr-defined]  # simple_history reads it
        row.save()
    return row


def deleted(row: Model, asker: Asker) -> None:
    row._change_reason = asker.label  # type: ignore[attr-defined]
    try:
        row.delete()
    except RestrictedError as error:
        heirs = ", ".join(sorted(str(heir) for heir in error.restricted_objects))
        raise ManagementRefused(
            "conflict", f"It is the base of {heirs}: give them another base first, or none."
        ) from error


def locked(row: Row) -> Row:
    """As it is now, and no one else's to change until the transaction ends."""
    rows = type(row)._default_manager.select_for_update()
    return rows.get(pk=row.pk)


def _take(preset: Preset, changes: Mapping[str, Any], asker: Asker, version: int | None) -> None:
    if version is not None and version != preset.version:
        raise ManagementRefused("conflict", _who_was_faster(preset, version), "version")
    check_restricted(preset, changes, asker)
    for field, value in _with_rows(changes).items():
        setattr(preset, field, value)


@contextlib.contextmanager
def _key_kept(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """`fields` with the reference of the key that they bring, forgotten if the block fails."""
    secret = fields.get("upstream_key")
    if not secret:
        yield fields
        return
    if problem := kept_secrets.problem(secret):
        raise ManagementRefused("validation_failed", problem, "upstream_key")
    with upstream_keys.kept(secret) as reference:
        yield {**fields, "upstream_key": reference}


def check_restricted(before: Preset, changes: Mapping[str, Any], asker: Asker) -> None:
    """See models_registry.restricted."""
    for field in () if asker.everything else RESTRICTED:
        was = getattr(before, field)
        if changes.get(field, was) != was:
            label = field.replace("_", " ")
            raise ManagementRefused(
                "permission_denied",
                f"Only superusers and admin keys may change the {label}.",
                field,
            )


def _with_rows(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`model_file` comes as an id, `base` and `group` as names, words as lists."""
    values = dict(fields)
    if values.get("model_file") is not None:
        values["model_file"] = _model_file(values["model_file"])
    if values.get("base") is not None:
        values["base"] = row_named("base", Preset, values["base"])
    if values.get("group") is not None:
        values["group"] = row_named("group", Group, values["group"])
    for field in {"tags", "request_strip"} & values.keys():
        values[field] = joined(values[field])
    return values


def row_named(field: str, model: type[Row], name: str) -> Row:
    """That which a body names in `field`."""
    row = model._default_manager.filter(name=name).first()
    if row is None:
        told = f"No {model._meta.verbose_name} is called {name!r}."
        raise ManagementRefused("validation_failed", told, field)
    return row


def _model_file(id: int) -> ModelFile:
    row = ModelFile.objects.filter(pk=id).first()
    if row is None:
        raise ManagementRefused("validation_failed", f"There is no model file {id}.", "model_file")
    return row


def _who_was_faster(preset: Preset, version: int) -> str:
    later = history.since(preset, version) if version < preset.version else []
    done = "; ".join(map(str, later))
    since = f" since version {version}: {done}" if done else ""
    return f"{preset.name} is at version {preset.version}{since}. Read it again, then change it."
