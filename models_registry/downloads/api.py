"""The routes of downloads in the management API. What they do is in asking.py and removing.py."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from models_registry.access import Needs, asker_of
from models_registry.downloads import asking, removing
from models_registry.downloads.schemas import (
    DeleteQuery,
    DownloadFilter,
    DownloadIn,
    DownloadOut,
    ResumeIn,
)
from models_registry.models import Download
from models_registry.shapes import Paged

downloads = Router(tags=["downloads"])

VIEW, ADD, CHANGE, DELETE = (
    Needs(f"models_registry.{verb}_download") for verb in ("view", "add", "change", "delete")
)


@downloads.get("", auth=VIEW, response=Paged[DownloadOut])
def list_downloads(request: HttpRequest, page: Query[DownloadFilter]) -> dict[str, Any]:
    """The newest first, with how far they are."""
    rows = asking.rows()
    return page.of(rows.filter(state=page.state) if page.state else rows)


@downloads.post("", auth=ADD, response={201: DownloadOut})
def create_download(request: HttpRequest, body: DownloadIn) -> Status[Download]:
    """Fetch a model in the background; refused with `conflict` while the same one is fetched."""
    row = asking.create(**body.model_dump(), asked_by=asker_of(request).label)
    return Status(201, row)


@downloads.get("/{int:id}", auth=VIEW, response=DownloadOut)
def get_download(request: HttpRequest, id: int) -> Download:
    return asking.by_id(id)


@downloads.post("/{int:id}/pause", auth=CHANGE, response=DownloadOut)
def pause_download(request: HttpRequest, id: int) -> Download:
    """What has come so far is kept."""
    return asking.pause(id)


@downloads.post("/{int:id}/resume", auth=CHANGE, response=DownloadOut)
def resume_download(request: HttpRequest, id: int, body: ResumeIn | None = None) -> Download:
    """A paused one goes on; one that failed or was cancelled is tried again."""
    return asking.resume(id, body.token if body else "")


@downloads.post("/{int:id}/cancel", auth=CHANGE, response=DownloadOut)
def cancel_download(request: HttpRequest, id: int) -> Download:
    """Its unfinished files are deleted."""
    return asking.cancel(id)


@downloads.delete("/{int:id}", auth=DELETE, response={204: None})
def delete_download(request: HttpRequest, id: int, query: Query[DeleteQuery]) -> Status[None]:
    """Forget it. The model stays, unless `files` asks for its files to be deleted."""
    if query.files:
        removing.remove_fetched(
            asking.by_id(id), asker_of(request), unload=query.unload, cascade=query.cascade
        )
    asking.forget(id)
    return Status(204, None)
