"""What the management API takes and gives of downloads."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field, StrictBool

from models_registry.downloads import shown
from models_registry.downloads.targets import LONGEST_TARGET
from models_registry.models import Download
from models_registry.shapes import Asked, Page, Strict

Kind = Literal["hub", "url", "ollama"]
State = Literal["queued", "running", "paused", "done", "failed", "cancelled"]
Sidecar = Literal["mmproj", "draft"]


class DownloadIn(Strict):
    kind: Kind = "hub"
    target: Annotated[str, Field(min_length=1, max_length=LONGEST_TARGET)] = Field(
        description="user/repo[:quant] of Hugging Face, a URL, or a name of Ollama's registry."
    )
    revision: str = Field("", max_length=200, description="Branch, tag or commit; empty: main.")
    sidecars: list[Sidecar] = Field(
        ["mmproj"], max_length=2, description="Companions to fetch, where the repository has them."
    )
    token: str = Field(
        "", max_length=500, description="For this download only; it is not stored in the database."
    )
    load: StrictBool = Field(False, description="Load the model as soon as it is there.")


class ResumeIn(Strict):
    token: str = Field("", max_length=500, description="In place of the one it had.")


class DownloadFilter(Page):
    state: State | None = Field(None, description="Only those in this state.")


class DeleteQuery(Asked):
    files: bool = Field(False, description="Delete the model's files from the disk as well.")
    unload: bool = Field(False, description="With files: also when it runs; its answers end first.")
    cascade: bool = Field(
        False, description="With files: also the presets that people made for them."
    )


class DownloadFileOut(Schema):
    path: str
    role: str
    bytes_done: int
    bytes_total: int | None


class DownloadOut(Schema):
    id: int
    kind: Kind
    target: str
    revision: str
    commit: str
    sidecars: list[str]
    name: str = Field(description="The model's name, once it is there.")
    state: State
    wanted: str = Field(description="paused or cancelled, while its job has not heard it yet.")
    progress: float | None = Field(description="0 to 1; null while the size is not known.")
    bytes_done: int
    bytes_total: int | None
    bytes_per_second: float | None
    remaining_seconds: float | None
    files: list[DownloadFileOut]
    error: str = Field(description="Why it failed, or what it waits for.")
    attempts: int = Field(description="How often a job began it.")
    asked_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @staticmethod
    def resolve_wanted(row: Download) -> str:
        return shown.wish(row)

    @staticmethod
    def resolve_progress(row: Download) -> float | None:
        return shown.fraction(row)

    @staticmethod
    def resolve_remaining_seconds(row: Download) -> float | None:
        return shown.remaining_seconds(row)

    @staticmethod
    def resolve_files(row: Download) -> list[dict[str, object]]:
        return [
            {
                "path": file["path"],
                "role": file["role"],
                "bytes_done": file["done"],
                "bytes_total": file["size"],
            }
            for file in row.files
        ]
