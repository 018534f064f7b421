"""The management API's shapes of groups, profiles and the global preset."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import Field, StrictBool

from models_registry.rest.schemas import Name, if_named
from models_registry.shapes import Strict
from models_registry.validation import LONGEST_OPTIONS


class _WithPresets(Schema):
    presets: list[str]

    @staticmethod
    def resolve_presets(row: Any) -> list[str]:
        return [preset.name for preset in row.presets.all()]


class GroupIn(Strict):
    name: Name
    one_at_a_time: StrictBool = Field(False, description="Of its presets one at a time is loaded.")
    exclusive: StrictBool = Field(
        False, description="Presets outside it are not loaded beside its own."
    )
    persistent: StrictBool = Field(
        False, description="Its presets stay beside those of exclusive groups."
    )
    presets: list[Name] = Field([], description="Those that are in another group leave it.")


class GroupPatch(Strict):
    name: Name = if_named()
    one_at_a_time: StrictBool = if_named()
    exclusive: StrictBool = if_named()
    persistent: StrictBool = if_named()
    presets: list[Name] = if_named(description="All of them: who is not named leaves the group.")


class GroupOut(_WithPresets):
    id: int
    name: str
    one_at_a_time: bool
    exclusive: bool
    persistent: bool


class ProfileIn(Strict):
    name: Name
    description: str = Field("", max_length=500)
    active: StrictBool = True
    presets: list[Name] = []


class ProfilePatch(Strict):
    name: Name = if_named()
    description: str = if_named(max_length=500)
    active: StrictBool = if_named()
    presets: list[Name] = if_named(description="All of them: who is not named leaves the profile.")


class ProfileOut(_WithPresets):
    id: int
    name: str
    description: str
    active: bool


class SwitchedOut(Schema):
    profile: str
    active: bool
    changed: bool = Field(description="False: it was so already.")
    presets: list[str] = Field(description="Those that it switched on or off.")


class GlobalPresetPatch(Strict):
    options: str = Field(max_length=LONGEST_OPTIONS, description="One `key = value` a line.")


class GlobalPresetOut(Schema):
    options: str
    file_options: dict[str, str] = Field(description="What the presets file says in [*].")
