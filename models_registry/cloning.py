"""A preset like another one."""

from __future__ import annotations

from django.db import transaction

from models_registry.models import Alias, Preset, Source
from models_registry.naming import unique_name, valid_name

_ITS_OWN = frozenset({"id", "name", "source", "file_options", "version"})


def clone(preset: Preset, name: str = "", *, reason: str) -> Preset:
    """Saved under `name`, or as "copy of" it with a number if that is taken. It has all options and
    profiles, and no alias. `reason` stands in its history. Raises ValidationError."""
    with transaction.atomic():
        copy = unsaved_copy(preset)
        copy.name = name or free_name(preset.name)
        copy.full_clean()
        copy._change_reason = reason  # type: ignore[attr-defined]  # simple_history reads it
        copy.save()
        for profile in preset.profiles.all():
            profile.presets.add(copy)
            profile.save()
    return copy


def unsaved_copy(preset: Preset) -> Preset:
    """A person's from now on: what a file says of the original becomes its own words."""
    fields = [field for field in preset._meta.concrete_fields if field.name not in _ITS_OWN]
    values = {field.attname: getattr(preset, field.attname) for field in fields}
    return Preset(source=Source.ADMIN, **values)


def free_name(name: str) -> str:
    """For a copy of the preset of this name."""
    wanted = valid_name(f"copy of {name}")
    names = {*Preset.objects.values_list("name", flat=True)}
    return unique_name(wanted, names | {*Alias.objects.values_list("name", flat=True)})
