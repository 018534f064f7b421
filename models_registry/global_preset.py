"""`[*]`: the one row of what counts for every preset."""

from __future__ import annotations

from models_registry.models import GlobalPreset

_KEY = 1


def the_global_preset() -> GlobalPreset:
    """Made when it is first asked for."""
    row = GlobalPreset.objects.order_by("pk").first()
    if row is not None:
        return row
    row, _ = GlobalPreset.objects.get_or_create(pk=_KEY)
    return row
