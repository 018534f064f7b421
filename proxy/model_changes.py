"""POST /models and DELETE /models: llama.cpp's way to fetch a model and to delete one.

They need an admin key, as the management API does: whoever fetches decides what lies on the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from models_registry.access import Asker
from models_registry.audit.actors import Look
from models_registry.downloads import asking, removing
from models_registry.downloads.choosing import MMPROJ
from models_registry.errors import ManagementRefused
from models_registry.models import Alias, Download, Preset
from proxy.access import by_headers
from proxy.addressing import address_query
from proxy.audit_notes import AuditNotes, by_asker, done_by
from proxy.carriage import Request
from proxy.headers import RawHeaders
from proxy.queries import DatabaseThread
from proxy.watch import Receive
from scheduler.protocol import Refused

LARGEST_BODY = 64 << 10

T = TypeVar("T")


class ModelChanges:
    """Each is done in a thread of its own: a disk may be slow."""

    def __init__(self, notes: AuditNotes) -> None:
        self.notes = notes
        self._thread = DatabaseThread("model-changes")

    async def fetch(self, request: Request, seconds: float) -> dict[str, Any]:
        """Raises Refused."""
        asker = await self.asker_of(request.headers)
        name = model_in(await small_body(request.receive, seconds))
        await self.do(partial(_fetch, name, asker), by_asker(asker, request))
        return {"success": True}

    async def remove(self, request: Request, query: bytes) -> dict[str, Any]:
        """Raises Refused."""
        asker = await self.asker_of(request.headers)
        change = partial(remove_model, address_query(query), asker)
        await self.do(change, by_asker(asker, request))
        return {"success": True}

    async def close(self) -> None:
        await self._thread.close()
        await self.notes.close()

    async def asker_of(self, headers: RawHeaders) -> Asker:
        """Whose admin key it is. Raises Refused."""
        return await self._thread.run(partial(by_headers, headers))

    async def do(self, change: Callable[[], T], who: Look) -> T:
        """In the thread for changes. Raises Refused."""
        try:
            return await self._thread.run(partial(done_by, who, change))
        except ManagementRefused as refused:
            raise Refused(refused.code, refused.message) from refused


def _fetch(name: str, asker: Asker) -> None:
    """In llama.cpp's words where it has some."""
    known = Preset.objects.filter(name=name).exists() or Alias.objects.filter(name=name).exists()
    if known or asking.unfinished_of(name) is not None:
        raise Refused("conflict", f"model '{name}' already exists")
    try:
        asking.create(Download.Kind.HUB, name, sidecars=(MMPROJ,), asked_by=asker.label)
    except ManagementRefused as refused:
        code = "invalid_request" if refused.code == "validation_failed" else refused.code
        raise Refused(code, refused.message) from refused


def remove_model(name: str, asker: Asker) -> None:
    """What runs ends its answers. A download that is under way is cancelled."""
    preset = Preset.objects.select_related("model_file").filter(name=name).first()
    if preset is None:
        row = asking.unfinished_of(name)
        if row is None:
            raise Refused("not_found", f"model name={name} is not found")
        asking.cancel(row.pk)
        return
    if preset.source not in removing.REMOVABLE or preset.model_file is None:
        raise Refused("conflict", f"model name={name} is not removable (not from cache)")
    removing.remove(preset.model_file, asker, unload=True, cascade=False, name=name)


class _Named(msgspec.Struct):
    model: str = ""


def model_in(body: bytes) -> str:
    try:
        model = msgspec.json.decode(body, type=_Named).model
    except msgspec.ValidationError as error:
        raise Refused("invalid_request", "model must be a non-empty string") from error
    except msgspec.DecodeError as error:
        raise Refused("invalid_json", f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise Refused("invalid_json", "The body's JSON is nested too deeply.") from error
    if not model:
        raise Refused("invalid_request", "model must be a non-empty string")
    return model


async def small_body(receive: Receive, seconds: float, most: int = LARGEST_BODY) -> bytes:
    """A small one, whole: of `most` bytes. Raises Refused."""
    body = b""
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                part: bytes = message.get("body", b"")
                body += part
                if len(body) > most:
                    raise Refused("body_too_large", f"The body is larger than {most} bytes.")
                if not message.get("more_body", False):
                    return body
    except TimeoutError as error:
        raise Refused("request_timeout", f"No whole body came within {seconds:g} s.") from error
