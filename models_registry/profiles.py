"""Profiles: presets that are switched on and off together."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from models_registry.models import Preset, Profile


def only_by(profile: Profile) -> list[str]:
    """The names of the presets that are on by this profile alone, or would be: those that it
    switches. A preset that another active profile has is on either way."""
    others = Q(pk__in=Preset.objects.filter(profiles__in=_other_active(profile)).values("pk"))
    return list(profile.presets.exclude(others).order_by("name").values_list("name", flat=True))


def switch(profile: Profile, *, active: bool, reason: str) -> bool:
    """Whether it changed. What is switched off ends when it has answered."""
    with transaction.atomic():
        row = Profile.objects.select_for_update().get(pk=profile.pk)
        if row.active == active:
            return False
        row.active = profile.active = active
        row._change_reason = reason  # type: ignore[attr-defined]  # simple_history reads it
        row.save(update_fields=["active"])
    return True


def _other_active(profile: Profile) -> list[int]:
    rows = Profile.objects.filter(active=True).exclude(pk=profile.pk)
    return list(rows.values_list("pk", flat=True))
