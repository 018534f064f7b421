"""A preset by whatever its name is written as."""

from __future__ import annotations

from models_registry.models import Alias, Preset
from models_registry.names import spellings


def preset_called(name: str) -> Preset | None:
    """By its own name or an alias, in any spelling."""
    for shown in spellings(name):
        found = Preset.objects.filter(name=shown).first()
        if found is None:
            alias = Alias.objects.select_related("preset").filter(name=shown).first()
            found = alias.preset if alias is not None else None
        if found is not None:
            return found
    return None
