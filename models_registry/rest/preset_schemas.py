"""The management API's shapes of a preset."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.db.models import Q
from ninja import Schema
from pydantic import Field, StrictBool, StrictInt

from models_registry import kept_secrets
from models_registry.access import asker_of
from models_registry.engines import LONGEST_COMMAND, EngineKind
from models_registry.naming import LONGEST_NAME
from models_registry.options.policy import LEAST_CONTEXT, LONGEST_IDLE, MOST_CONTEXT, MOST_WAITERS
from models_registry.options.policy_keys import LONGEST_TAGS, tag_words
from models_registry.ports import PlacementKind, PlacementWish
from models_registry.request_filters import stripped_names
from models_registry.rest.schemas import (
    Count,
    Id,
    IdleSeconds,
    Name,
    Parameter,
    Replicas,
    Seconds,
    Tag,
    TimeOut,
    Urgency,
    Word,
    if_named,
)
from models_registry.restricted import masked
from models_registry.shapes import Page, Strict
from models_registry.tags import tagged, tags_of
from models_registry.validation import LONGEST_OPTIONS

CommandLine = Annotated[str, Field(max_length=LONGEST_COMMAND)]
HealthPath = Annotated[str, Field(max_length=200)]
Url = Annotated[str, Field(max_length=500)]
UpstreamModel = Annotated[str, Field(max_length=200)]
Secret = Annotated[str, Field(max_length=kept_secrets.LONGEST)]


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
    connect_timeout: TimeOut | None = Field(None, description="Seconds to reach the engine.")
    first_byte_timeout: TimeOut | None = Field(
        None, description="Seconds until an answer begins, at most."
    )
    idle_timeout: TimeOut | None = Field(
        None, description="Seconds between two pieces of an answer, at most."
    )
    answer_timeout: TimeOut | None = Field(None, description="Seconds for a whole answer.")
    model_file: Id | None = Field(
        None, description="The id of one of /models; not every engine needs one."
    )

    base: Name | None = Field(
        None, description="The preset whose options count wherever this one sets nothing."
    )
    group: Name | None = Field(None, description="One of /groups.")


class PresetIn(PresetOptions):
    name: Name
    engine: EngineKind = Field(EngineKind.LLAMA_SERVER, description="Who answers.")
    command_line: CommandLine = Field("", description="Of the engine `command`.")
    health_path: HealthPath = Field("", description="What answers 200 once it can serve.")
    declared_memory: dict[str, StrictInt] = Field({}, description="MiB by device.")
    upstream_url: Url = Field("", description="Of the engine `upstream`.")
    upstream_model: UpstreamModel = Field("", description="As the remote server calls it.")
    upstream_key: Secret = Field("", description="Kept, and never shown again.")
    tags: list[Tag] = []
    unlisted: StrictBool = Field(False, description="Left out of GET /models; it answers.")
    environment: str = Field(
        "", max_length=LONGEST_OPTIONS, description="One `NAME=value` a line, for its process."
    )
    request_strip: list[Parameter] = Field([], description="Taken out of every request's body.")
    request_defaults: dict[str, Any] = Field({}, description="Where a request's body has none.")
    request_set: dict[str, Any] = Field({}, description="In place of those of a request's body.")
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
    name: Name = if_named(description="The old name stays as an alias.")
    engine: EngineKind = if_named()
    command_line: CommandLine = if_named()
    health_path: HealthPath = if_named()
    declared_memory: dict[str, StrictInt] = if_named()
    upstream_url: Url = if_named()
    upstream_model: UpstreamModel = if_named()
    upstream_key: Secret = if_named(description="Empty: the one that was kept is forgotten.")
    tags: list[Tag] = if_named()
    unlisted: StrictBool = if_named()
    environment: str = if_named(max_length=LONGEST_OPTIONS)
    request_strip: list[Parameter] = if_named()
    request_defaults: dict[str, Any] = if_named()
    request_set: dict[str, Any] = if_named()
    extra_options: str = if_named(max_length=LONGEST_OPTIONS)
    pinned: StrictBool = if_named()
    load_on_startup: StrictBool | None = if_named()
    priority: Urgency = if_named()
    placement: PlacementWish = if_named()
    replicas: Replicas = if_named()
    readiness_probe: StrictBool = if_named()


class PresetOut(Schema):
    id: int
    version: int
    name: str
    aliases: list[str]
    model_file: int | None
    model_path: str = Field(description="Empty without a file.")
    engine: str
    command_line: str
    health_path: str
    declared_memory: dict[str, int]
    upstream_url: str
    upstream_model: str
    has_upstream_key: bool
    source: str
    base: str | None
    group: str | None
    profiles: list[str]
    tags: list[str]
    unlisted: bool
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
    connect_timeout: float | None
    first_byte_timeout: float | None
    idle_timeout: float | None
    answer_timeout: float | None
    readiness_probe: bool
    environment: str = Field(
        description="Who may not do everything sees no values of what is called like a secret."
    )
    request_strip: list[str]
    request_defaults: dict[str, Any]
    request_set: dict[str, Any]

    @staticmethod
    def resolve_base(row: Any) -> str | None:
        return row.base.name if row.base is not None else None

    @staticmethod
    def resolve_group(row: Any) -> str | None:
        return row.group.name if row.group is not None else None

    @staticmethod
    def resolve_profiles(row: Any) -> list[str]:
        return [profile.name for profile in row.profiles.all()]

    @staticmethod
    def resolve_tags(row: Any) -> list[str]:
        return list(tags_of(row))

    @staticmethod
    def resolve_environment(row: Any, context: Any) -> str:
        everything = asker_of(context["request"]).everything
        return str(row.environment) if everything else masked(row.environment)

    @staticmethod
    def resolve_request_strip(row: Any) -> list[str]:
        return list(stripped_names(row.request_strip))

    @staticmethod
    def resolve_aliases(row: Any) -> list[str]:
        return [alias.name for alias in row.aliases.all()]

    @staticmethod
    def resolve_model_file(row: Any) -> int | None:
        return None if row.model_file_id is None else int(row.model_file_id)

    @staticmethod
    def resolve_has_upstream_key(row: Any) -> bool:
        return bool(row.upstream_key)

    @staticmethod
    def resolve_model_path(row: Any) -> str:
        return str(row.model_path)


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
    policy: list[EffectiveOptionOut] = Field(description="What the scheduler goes by.")
    notes: list[str] = Field(description="Extra options of an older engine, and what they became.")
    warnings: list[str] = Field(description="Devices that it names and the machine does not have.")
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


# Lists ------------------------------------------------------------------------------------


class PresetFilter(Page):
    search: str = Field("", max_length=LONGEST_NAME, description="A part of the name.")
    pinned: bool | None = None
    model_file: int | None = Field(None, ge=1, le=2**63 - 1)
    tags: str = Field("", max_length=LONGEST_TAGS, description="All of these: `chat,code`.")
    group: str = Field("", max_length=LONGEST_NAME)
    profile: str = Field("", max_length=LONGEST_NAME)
    source: str = Field("", max_length=20)

    def conditions(self) -> Q:
        """For a queryset of presets; what was not asked for is not in it."""
        asked = {
            "name__contains": self.search or None,
            "pinned": self.pinned,
            "model_file": self.model_file,
            "group__name": self.group or None,
            "profiles__name": self.profile or None,
            "source": self.source or None,
        }
        wanted = Q(**{name: value for name, value in asked.items() if value is not None})
        return wanted & tagged(*tag_words(self.tags)) if tag_words(self.tags) else wanted
