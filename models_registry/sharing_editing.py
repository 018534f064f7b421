"""Groups, profiles and the global preset, as programs find and change them: see editing.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from models_registry import profiles
from models_registry.access import Asker
from models_registry.editing import create_group as create_row
from models_registry.editing import deleted, locked, row_named, saved
from models_registry.errors import ManagementRefused
from models_registry.global_preset import the_global_preset
from models_registry.models import GlobalPreset, Group, Preset, Profile
from models_registry.organising import Wishes, organise

# Groups -----------------------------------------------------------------------------------


def groups() -> QuerySet[Group]:
    return Group.objects.prefetch_related("presets").order_by("name")


def group_named(name: str) -> Group:
    found = groups().filter(name=name).first()
    if found is None:
        raise ManagementRefused("not_found", f"No group is called {name!r}.")
    return found


def create_group(fields: Mapping[str, Any], asker: Asker) -> Group:
    own, members = _apart(fields)
    with transaction.atomic():
        group = create_row(own, asker)
        _put_into_group(group, members or (), asker)
    return group_named(group.name)


def change_group(name: str, changes: Mapping[str, Any], asker: Asker) -> Group:
    own, members = _apart(changes)
    with transaction.atomic():
        group = locked(group_named(name))
        for field, value in own.items():
            setattr(group, field, value)
        saved(group, asker)
        if members is not None:
            _put_into_group(group, members, asker)
    return group_named(group.name)


def delete_group(name: str, asker: Asker) -> None:
    """Its presets stay, and are in no group."""
    with transaction.atomic():
        deleted(group_named(name), asker)


def _put_into_group(group: Group, names: Sequence[str], asker: Asker) -> None:
    wanted = _presets(names)
    left = group.presets.exclude(pk__in=[preset.pk for preset in wanted])
    if (wanted or left) and not asker.may("models_registry.change_preset"):
        raise ManagementRefused(
            "permission_denied", "Who may not change presets moves none into a group.", "presets"
        )
    organise(left, Wishes(regroup=True), reason=asker.label)
    organise(wanted, Wishes(regroup=True, group=group), reason=asker.label)


# Profiles ---------------------------------------------------------------------------------


def all_profiles() -> QuerySet[Profile]:
    return Profile.objects.prefetch_related("presets").order_by("name")


def profile_named(name: str) -> Profile:
    found = all_profiles().filter(name=name).first()
    if found is None:
        raise ManagementRefused("not_found", f"No profile is called {name!r}.")
    return found


def create_profile(fields: Mapping[str, Any], asker: Asker) -> Profile:
    own, members = _apart(fields)
    with transaction.atomic():
        profile = saved(Profile(**own), asker)
        profile.presets.set(_presets(members or ()))
    return profile_named(profile.name)


def change_profile(name: str, changes: Mapping[str, Any], asker: Asker) -> Profile:
    own, members = _apart(changes)
    with transaction.atomic():
        profile = locked(profile_named(name))
        for field, value in own.items():
            setattr(profile, field, value)
        saved(profile, asker)
        if members is not None:
            profile._change_reason = asker.label  # type: ignore[attr-defined]
            profile.presets.set(_presets(members))
    return profile_named(profile.name)


def switch_profile(name: str, asker: Asker, *, active: bool) -> dict[str, Any]:
    profile = profile_named(name)
    names = profiles.only_by(profile)
    changed = profiles.switch(profile, active=active, reason=asker.label)
    return {
        "profile": profile.name,
        "active": active,
        "changed": changed,
        "presets": names if changed else [],
    }


def delete_profile(name: str, asker: Asker) -> None:
    """Its presets stay; those in no other profile are on."""
    with transaction.atomic():
        deleted(profile_named(name), asker)


# The global preset --------------------------------------------------------------------------


def change_global_preset(options: str, asker: Asker) -> GlobalPreset:
    with transaction.atomic():
        row = locked(the_global_preset())
        row.options = options
        return saved(row, asker)


# How ----------------------------------------------------------------------------------------


def _apart(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[str] | None]:
    """(the row's own fields, the names of its presets; None: they stay as they are)."""
    own = dict(fields)
    return own, own.pop("presets", None)


def _presets(names: Sequence[str]) -> list[Preset]:
    found = {row.name: row for row in Preset.objects.filter(name__in=names)}
    return [found[name] if name in found else row_named("presets", Preset, name) for name in names]
