"""What the management API takes and gives, for the registry's rows.

Only shapes and types stand here. What makes a row coherent is models_registry.validation, through
`full_clean()`, as in the admin's forms.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import Q
from ninja import Schema
from pydantic import Field, StrictFloat, StrictInt

from models_registry.measurements import total_bytes
from models_registry.metadata_shown import metadata_of
from models_registry.models import Alias, FileMetadata
from models_registry.naming import LONGEST_NAME
from models_registry.options.policy import (
    LEAST_TIME_OUT,
    LONGEST_IDLE,
    LONGEST_WAIT,
    MOST_REPLICAS,
    NEVER,
)
from models_registry.shapes import Asked, Page, Strict
from models_registry.sources.discovery import Report

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Path = Annotated[str, Field(min_length=1, max_length=1024)]
Id = Annotated[StrictInt, Field(ge=1, le=2**63 - 1)]
Count = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]
Word = Annotated[str, Field(max_length=10)]
Seconds = Annotated[StrictFloat, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False)]
TimeOut = Annotated[StrictFloat, Field(ge=LEAST_TIME_OUT, le=LONGEST_WAIT, allow_inf_nan=False)]
IdleSeconds = Annotated[StrictFloat, Field(ge=NEVER, le=LONGEST_IDLE, allow_inf_nan=False)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^,\n]*$")]
Parameter = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^,\n]*$")]
Urgency = Literal["low", "normal", "high"]
Replicas = Annotated[StrictInt, Field(ge=1, le=MOST_REPLICAS)]


def if_named(**described: Any) -> Any:
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
    draft: str = Field("", max_length=1024, description="Absolute path of the draft model.")


class ModelFilePatch(Strict):
    path: Path = if_named()
    mmproj: str = if_named(max_length=1024, description="Empty: none.")
    draft: str = if_named(max_length=1024, description="Empty: none.")


class HeaderOut(Schema):
    """null is what the header does not say."""

    error: str = Field(description="Why it cannot be read; else empty.")
    name: str
    architecture: str
    parameters: int | None
    weights: int | None = Field(description="Bytes of all tensors.")
    quantisation: str
    context_length: int | None = Field(description="Tokens it was trained for.")
    layers: int | None
    embedding_length: int | None
    vocabulary: int | None = Field(description="Tokens.")
    tokenizer: str
    input_modalities: list[str]
    output_modalities: list[str]
    licence: str
    read_at: datetime


class ModelFileOut(Schema):
    id: int
    path: str
    mmproj: str
    draft: str
    size: int = Field(description="Bytes, all shards.")
    source: str
    missing_since: datetime | None
    presets: list[str]
    header: HeaderOut | None = Field(description="null until it has been read.")

    @staticmethod
    def resolve_presets(row: Any) -> list[str]:
        return [preset.name for preset in row.presets.all()]

    @staticmethod
    def resolve_header(row: Any) -> FileMetadata | None:
        return metadata_of(row)


class ModelFileFilter(Page):
    search: str = Field("", max_length=LONGEST_NAME, description="In the path or the name.")
    architecture: str = Field("", max_length=64)
    quantisation: str = Field("", max_length=32)
    licence: str = Field("", max_length=250)

    def conditions(self) -> Q:
        """For a queryset of model files."""
        headers = ("architecture", "quantisation", "licence")
        asked = {f"metadata__{key}": found for key in headers if (found := getattr(self, key))}
        text = Q(path__icontains=self.search) | Q(metadata__name__icontains=self.search)
        return Q(**asked) & text if self.search else Q(**asked)


class Cascade(Asked):
    cascade: bool = Field(False, description="Delete the file's presets as well.")


# What can be asked of a preset --------------------------------------------------------------


class CloneIn(Strict):
    name: str = Field("", max_length=LONGEST_NAME, description="Empty: `copy of` it.")


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
    request_set: dict[str, Any] = Field(
        {}, description="In place of those of the body of a request by this name."
    )


class AliasPatch(Strict):
    name: Name = if_named()
    preset: Name = if_named()
    request_set: dict[str, Any] = if_named()


class AliasOut(Schema):
    id: int
    name: str
    preset: str
    request_set: dict[str, Any]

    @staticmethod
    def resolve_preset(row: Alias) -> str:
        return row.preset.name


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
    presets_file: list[str] = Field(description="What the presets file did.")
    presets_fault: str = Field(description="What is wrong in it, by line: nothing was changed.")

    @staticmethod
    def resolve_presets_file(report: Report) -> list[str]:
        return report.presets_file.lines() if report.presets_file else []


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
