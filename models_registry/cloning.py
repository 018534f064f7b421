"""A preset like another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing
from models_registry.imports.options import fields_of
from models_registry.models import Alias, Preset, Source
from models_registry.naming import unique_name, valid_name
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.policy_keys import POLICY_KEYS, PolicyKind, policy_value
from models_registry.options.preset_options import column_options, read_lines
from models_registry.tags import joined

_ITS_OWN = frozenset({"id", "name", "source", "file_options", "version"})


def clone(preset: Preset, name: str = "", *, reason: str) -> Preset:
    """Saved under `name`, or as "copy of" it with a number if that is taken. It has all options and
    profiles, and no alias; what the presets file says of the original becomes its own words, since
    no file speaks of it. `reason` stands in its history. Raises ValidationError."""
    with transaction.atomic():
        copy = unsaved_copy(preset)
        for field, value in _filed(preset).items():
            setattr(copy, field, value)
        copy.name = name or free_name(preset.name)
        copy.full_clean()
        copy._change_reason = reason  # type: ignore[attr-defined]  # simple_history reads it
        copy.save()
        for profile in preset.profiles.all():
            profile.presets.add(copy)
    return copy


def unsaved_copy(preset: Preset) -> Preset:
    """Without a name, and without what the presets file says."""
    fields = [field for field in preset._meta.concrete_fields if field.name not in _ITS_OWN]
    values = {field.attname: getattr(preset, field.attname) for field in fields}
    return Preset(source=Source.ADMIN, **values)


def free_name(name: str) -> str:
    """For a copy of the preset of this name."""
    wanted = valid_name(f"copy of {name}")
    names = {*Preset.objects.values_list("name", flat=True)}
    return unique_name(wanted, names | {*Alias.objects.values_list("name", flat=True)})


def _filed(preset: Preset) -> dict[str, Any]:
    """The fields that say what the presets file says where the preset itself is silent."""
    if not preset.file_options:
        return {}
    said = _said(preset)
    options = {
        key: text
        for key, text in preset.file_options.items()
        if key not in said and (key not in POLICY_KEYS or not POLICY_KEYS[key].column)
    }
    fields, problems = fields_of(options)
    if problems:
        raise ValidationError(problems)
    if lines := fields.get("extra_options"):
        fields["extra_options"] = "\n".join(filter(None, (preset.extra_options.rstrip(), lines)))
    return dict(_filed_policy(preset)) | fields


def _said(preset: Preset) -> set[str]:
    """The keys that the preset's own columns and lines set."""
    said = {*column_options(preset)}
    if preset.extra_options.strip():
        try:
            lines = read_lines(preset.extra_options, engine_catalogue(llama_server()))
        except EngineMissing as error:
            raise ValidationError(f"Its options cannot be read now: {error}") from error
        said |= lines.options.keys() | lines.policy.keys()
    return said


def _filed_policy(preset: Preset) -> Iterator[tuple[str, Any]]:
    for name, text in preset.file_options.items():
        key = POLICY_KEYS.get(name)
        if key is None or not key.column or getattr(preset, key.field) not in (None, key.unset):
            continue
        value: Any = policy_value(name, text)
        yield key.field, joined(value) if key.kind is PolicyKind.WORDS else value
