"""What the management API takes and gives, for the registry's rows.

Only shapes and types stand here. What makes a row coherent is models_registry.validation, through
`full_clean()`, as in the admin's forms.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from models_registry.measurements import total_bytes
from models_registry.models import Alias
from models_registry.naming import LONGEST_NAME
from models_registry.policy import (
    LEAST_CONTEXT,
    LONGEST_IDLE,
    LONGEST_WAIT,
    MOST_CONTEXT,
    MOST_REPLICAS,
    MOST_WAITERS,
    NEVER,
)
from models_registry.ports import PlacementKind, PlacementWish
from models_registry.shapes import Asked, Page, Strict
from models_registry.validation import LONGEST_OPTIONS

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Path = Annotated[str, Field(min_length=1, max_length=1024)]
Id = Annotated[StrictInt, Field(ge=1, le=2**63 - 1)]
Count = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]
Word = Annotated[str, Field(max_length=10)]
Seconds = Annotated[StrictFloat, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False)]
IdleSeconds = Annotated[StrictFloat, Field(ge=NEVER, le=LONGEST_IDLE, allow_inf_nan=False)]
Urgency = Literal["low", "normal", "high"]
Replicas = Annotated[StrictInt, Field(ge=1, le=MOST_REPLICAS)]


def _if_named(**described: Any) -> Any:
    """A field of a patch that cannot be null: left out, it stays as it is."""
    return Field(None, **described)


class ErrorBody(Schema):
    message: str
    type: str
    param: str | None = Field(description="The field at fault, where there is one.")
    code: str = Field(description="One of docs/errors.md; it does not change.")


class ErrorAnswer(Schema):
    error: ErrorBody


# Model files ------------------------------------------------------------------------------


class ModelFileIn(Strict):
    path: Path = Field(description="Absolute path of the GGUF on the gateway's machine.")
    mmproj: str = Field("", max_length=1024, description="Absolute path of the projector.")


class ModelFileOut(Schema):
    id: int
    path: str
    mmproj: str
    size: int = Field(description="Bytes, all shards.")
    source: str
    missing_since: datetime | None
    presets: list[str]

    @staticmethod
    def resolve_presets(row: Any) -> list[str]:
        return [preset.name for preset in row.presets.all()]


class Cascade(Asked):
    cascade: bool = Field(False, description="Delete the file's presets as well.")


# Presets ----------------------------------------------------------------------------------


class PresetOptions(Strict):
    """null, or left out of a new preset: unset, the layer below decides."""

    ctx_size: Annotated[StrictInt, Field(ge=0, le=2**31 - 1)] | None = None
    parallel: Count | None = None
    n_gpu_layers: Word | None = Field(None, description="A number as text, `auto` or `all`.")
    threads: Count | None = None
    batch_size: Count | None = None
    ubatch_size: Count | None = None
    cache_type_k: Word | None = None
    cache_type_v: Word | None = None
    flash_attn: Literal["on", "off", "auto"] | None = None
    embeddings: StrictBool | None = None
    stop_timeout: Seconds | None = None
    max_wait: Seconds | None = Field(
        None, description="Seconds until, at most, a busy model takes no new requests for it."
    )
    queue_limit: Annotated[StrictInt, Field(ge=0, le=MOST_WAITERS)] | None = Field(
        None, description="Requests that may wait for it; 0: no limit of its own."
    )
    min_residency: Seconds | None = Field(
        None, description="Seconds for which it stays once loaded; at most max_wait."
    )
    keep_alive: IdleSeconds | None = Field(
        None, description="Idle seconds until it ends; 0: as soon as idle, -1: never."
    )
    sleep_idle: Annotated[StrictInt, Field(ge=1, le=int(LONGEST_IDLE))] | None = Field(
        None, description="Idle seconds until it sleeps; null: it does not."
    )
    context_cap: Annotated[StrictInt, Field(ge=LEAST_CONTEXT, le=MOST_CONTEXT)] | None = Field(
        None, description="Tokens for each slot, at most, while ctx_size is null."
    )


class PresetIn(PresetOptions):
    name: Name
    model_file: Id = Field(description="The id of one of /models.")
    extra_options: str = Field(
        "", max_length=LONGEST_OPTIONS, description="One `key = value` a line."
    )
    pinned: StrictBool = False
    load_on_startup: StrictBool | None = None
    priority: Urgency = "normal"
    placement: PlacementWish = Field(
        "best", description="Wait for the best place, or take the best that is free now."
    )
    replicas: Replicas = Field(1, description="Instances at once, at most.")
    readiness_probe: StrictBool = Field(
        False, description="One token is generated before it counts as loaded."
    )


class PresetPatch(PresetOptions):
    """Only what is named is changed."""

    version: StrictInt | None = Field(
        None, description="As last read; refused with `conflict` when the preset is newer."
    )
    name: Name = _if_named(description="The old name stays as an alias.")
    model_file: Id = _if_named()
    extra_options: str = _if_named(max_length=LONGEST_OPTIONS)
    pinned: StrictBool = _if_named()
    load_on_startup: StrictBool | None = _if_named()
    priority: Urgency = _if_named()
    placement: PlacementWish = _if_named()
    replicas: Replicas = _if_named()
    readiness_probe: StrictBool = _if_named()


class PresetOut(Schema):
    id: int
    version: int
    name: str
    aliases: list[str]
    model_file: int
    model_path: str
    source: str
    ctx_size: int | None
    parallel: int | None
    n_gpu_layers: str | None
    threads: int | None
    batch_size: int | None
    ubatch_size: int | None
    cache_type_k: str | None
    cache_type_v: str | None
    flash_attn: str | None
    embeddings: bool | None
    extra_options: str
    pinned: bool
    load_on_startup: bool | None
    stop_timeout: float | None
    priority: str
    max_wait: float | None
    queue_limit: int | None
    min_residency: float | None
    keep_alive: float | None
    sleep_idle: int | None
    placement: str
    context_cap: int | None
    replicas: int
    readiness_probe: bool

    @staticmethod
    def resolve_aliases(row: Any) -> list[str]:
        return [alias.name for alias in row.aliases.all()]

    @staticmethod
    def resolve_model_file(row: Any) -> int:
        return int(row.model_file_id)

    @staticmethod
    def resolve_model_path(row: Any) -> str:
        return str(row.model_file.path)


class EffectiveOptionOut(Schema):
    key: str
    value: str
    layer: str = Field(
        description="default, environment, model_file, global, base, preset_file, preset or "
        "command_line."
    )
    where: str = Field(description="The same in words.")
    locked: bool = Field(description="Set by serve's own command line: a preset cannot change it.")


class EffectiveOut(Schema):
    preset: str
    options: list[EffectiveOptionOut]
    argv: list[str] = Field(description="The program and its arguments, one item each.")
    command_line: str = Field(description="The same, quoted for a shell.")


# What would fit ---------------------------------------------------------------------------


class FitIn(PresetPatch):
    """What a PATCH of it would say; what is not named is as it is saved."""

    preset: Name | None = Field(None, description="The one being edited; null: a new one.")


class FittingOut(Schema):
    kind: PlacementKind | None = Field(
        description="whole: on one device. spread: on several. partial: some layers on the host. "
        "host: all of it there. fixed: as its options say. null: nowhere."
    )
    layers: dict[str, int] = Field(description="How many each device has.")
    context: int = Field(description="Tokens over all slots; 0: as its options say.")
    bytes: dict[str, int] = Field(description="On each device.")
    evicts: list[str] = Field(description="Presets that would go for it.")
    waits: bool = Field(description="It would not start at once.")
    problem: str = Field(description="Why it fits nowhere, with the figures; else empty.")


class FitOut(Schema):
    preset: str
    estimated: bool = Field(description="It has not been measured yet.")
    now: FittingOut
    empty: FittingOut = Field(description="On the machine without any instance.")


# What can be asked of a preset --------------------------------------------------------------


class LoadQuery(Asked):
    wait: bool = Field(False, description="Answer when it is loaded, or has failed to.")


class UnloadQuery(Asked):
    force: bool = Field(False, description="Cut the answers that are under way.")


class AskedOut(Schema):
    preset: str
    state: Literal["queued", "loaded", "unloading", "unloaded", "applying", "measuring"]


# Aliases ----------------------------------------------------------------------------------


class AliasIn(Strict):
    name: Name
    preset: Name


class AliasPatch(Strict):
    name: Name = _if_named()
    preset: Name = _if_named()


class AliasOut(Schema):
    id: int
    name: str
    preset: str

    @staticmethod
    def resolve_preset(row: Alias) -> str:
        return row.preset.name


class PresetFilter(Page):
    search: str = Field("", max_length=LONGEST_NAME, description="A part of the name.")
    pinned: bool | None = None
    model_file: int | None = Field(None, ge=1, le=2**63 - 1)

    def conditions(self) -> dict[str, Any]:
        """For a queryset of presets; what was not asked for is not in it."""
        asked = {
            "name__contains": self.search or None,
            "pinned": self.pinned,
            "model_file": self.model_file,
        }
        return {name: value for name, value in asked.items() if value is not None}


# Rescan -----------------------------------------------------------------------------------


class RescanOut(Schema):
    found: dict[str, int] = Field(description="Models in each source that could be read.")
    added: list[str] = Field(description="Presets that were made.")
    updated: list[str] = Field(description="Paths and presets that changed.")
    missing: list[str] = Field(description="Paths that are gone; what was made of them stays.")
    returned: list[str] = Field(description="Paths that were missing before.")
    conflicts: list[str] = Field(description="Names that more than one model wants.")
    problems: list[str] = Field(description="Files and folders that could not be read.")
    notes: list[str] = Field(description="What of a new model's source could not be taken.")
    vanished: list[str] = Field(description="Sources that could not be listed, left as they were.")


# Measurements -----------------------------------------------------------------------------


class DeviceOut(Schema):
    device: str
    model: int
    context: int
    compute: int


class MeasurementOut(Schema):
    id: int
    fingerprint: str = Field(description="Of the files, the options that matter, the engine.")
    preset: str = Field(description="The one it was ordered for; others may share it.")
    state: str = Field(description="pending, measured or failed.")
    devices: list[DeviceOut] = Field(description="Bytes on each device.")
    total: dict[str, int] = Field(description="Bytes in all, by device.")
    error: str
    engine: str
    seconds: float | None = Field(description="How long measuring took.")
    created_at: datetime
    measured_at: datetime | None

    @staticmethod
    def resolve_total(row: Any) -> dict[str, int]:
        return total_bytes(row)


class MeasurementFilter(Page):
    preset: str = Field("", max_length=LONGEST_NAME, description="That of this preset as it is.")
    state: Literal["pending", "measured", "failed", "unreadable"] | None = None
