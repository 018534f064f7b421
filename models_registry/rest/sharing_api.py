"""The management API's routes of groups, profiles and the global preset."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from models_registry import sharing_editing as editing
from models_registry.access import Needs, asker_of
from models_registry.global_preset import the_global_preset
from models_registry.models import GlobalPreset, Group, Profile
from models_registry.rest.sharing_schemas import (
    GlobalPresetOut,
    GlobalPresetPatch,
    GroupIn,
    GroupOut,
    GroupPatch,
    ProfileIn,
    ProfileOut,
    ProfilePatch,
    SwitchedOut,
)
from models_registry.shapes import Page, Paged

groups = Router(tags=["groups"])
profiles = Router(tags=["profiles"])
global_preset = Router(tags=["presets"])

VIEW_GROUPS, ADD_GROUPS, CHANGE_GROUPS, DELETE_GROUPS = (
    Needs(f"models_registry.{verb}_group") for verb in ("view", "add", "change", "delete")
)
VIEW_PROFILES, ADD_PROFILES, CHANGE_PROFILES, DELETE_PROFILES = (
    Needs(f"models_registry.{verb}_profile") for verb in ("view", "add", "change", "delete")
)

# Groups -----------------------------------------------------------------------------------


@groups.get("", auth=VIEW_GROUPS, response=Paged[GroupOut])
def list_groups(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    """Which presets share the machine, and how."""
    return page.of(editing.groups())


@groups.post("", auth=ADD_GROUPS, response={201: GroupOut})
def create_group(request: HttpRequest, body: GroupIn) -> Status[Group]:
    return Status(201, editing.create_group(body.model_dump(), asker_of(request)))


@groups.get("/{path:name}", auth=VIEW_GROUPS, response=GroupOut)
def get_group(request: HttpRequest, name: str) -> Group:
    return editing.group_named(name)


@groups.patch("/{path:name}", auth=CHANGE_GROUPS, response=GroupOut)
def change_group(request: HttpRequest, name: str, body: GroupPatch) -> Group:
    return editing.change_group(name, body.model_dump(exclude_unset=True), asker_of(request))


@groups.delete("/{path:name}", auth=DELETE_GROUPS, response={204: None})
def delete_group(request: HttpRequest, name: str) -> Status[None]:
    """Its presets stay, and are in no group."""
    editing.delete_group(name, asker_of(request))
    return Status(204, None)


# Profiles: switching before `{path:name}`, which would take the ending as well ---------------


@profiles.post("/{path:name}/activate", auth=CHANGE_PROFILES, response=SwitchedOut)
def activate_profile(request: HttpRequest, name: str) -> dict[str, Any]:
    """Offer its presets again."""
    return editing.switch_profile(name, asker_of(request), active=True)


@profiles.post("/{path:name}/deactivate", auth=CHANGE_PROFILES, response=SwitchedOut)
def deactivate_profile(request: HttpRequest, name: str) -> dict[str, Any]:
    """Offer its presets no longer, but for those of other active profiles. What runs of them ends
    when it has answered."""
    return editing.switch_profile(name, asker_of(request), active=False)


@profiles.get("", auth=VIEW_PROFILES, response=Paged[ProfileOut])
def list_profiles(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    """Presets that are switched on and off together."""
    return page.of(editing.all_profiles())


@profiles.post("", auth=ADD_PROFILES, response={201: ProfileOut})
def create_profile(request: HttpRequest, body: ProfileIn) -> Status[Profile]:
    return Status(201, editing.create_profile(body.model_dump(), asker_of(request)))


@profiles.get("/{path:name}", auth=VIEW_PROFILES, response=ProfileOut)
def get_profile(request: HttpRequest, name: str) -> Profile:
    return editing.profile_named(name)


@profiles.patch("/{path:name}", auth=CHANGE_PROFILES, response=ProfileOut)
def change_profile(request: HttpRequest, name: str, body: ProfilePatch) -> Profile:
    return editing.change_profile(name, body.model_dump(exclude_unset=True), asker_of(request))


@profiles.delete("/{path:name}", auth=DELETE_PROFILES, response={204: None})
def delete_profile(request: HttpRequest, name: str) -> Status[None]:
    """Its presets stay; those that are in no other profile are on."""
    editing.delete_profile(name, asker_of(request))
    return Status(204, None)


# The global preset --------------------------------------------------------------------------


@global_preset.get("", auth=Needs("models_registry.view_globalpreset"), response=GlobalPresetOut)
def get_global_preset(request: HttpRequest) -> GlobalPreset:
    """What counts for every preset that does not say otherwise."""
    return the_global_preset()


@global_preset.patch("", auth=Needs(), response=GlobalPresetOut)
def change_global_preset(request: HttpRequest, body: GlobalPresetPatch) -> GlobalPreset:
    """For superusers and admin keys: it is nothing but engine options."""
    return editing.change_global_preset(body.options, asker_of(request))
