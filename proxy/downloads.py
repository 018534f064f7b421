"""Models that are still being fetched: listed with their progress, and said to who asks for one."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from models_registry.downloads import asking, shown
from models_registry.models import Download
from proxy.callers import Caller
from proxy.offered import TEXT
from proxy.queries import DatabaseThread, Remembered, Shared
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

SPACING_SECONDS = 0.2
"""All who ask within this time share one query: names that nobody knows may come in floods."""

_LONGEST_WAIT_SECONDS = 60.0
_UNKNOWN_WAIT_SECONDS = 10.0


class Downloads:
    """What is not there yet."""

    def __init__(self) -> None:
        self._thread = DatabaseThread("downloads")
        self._rows = Remembered(Shared(self._thread, asking.unfinished, SPACING_SECONDS))

    async def entries(self) -> dict[str, dict[str, Any]]:
        """For the list of models, by name."""
        return {row.name: entry_of(row) for row in await self._rows.ask()}

    async def finished(self, names: Collection[str]) -> dict[str, bool]:
        """Of those that were being fetched: whether they are there now."""
        return await self._thread.run(lambda: _are_there(names))

    async def instead_of(self, refused: Refused, model: str, caller: Caller) -> Refused:
        """A model that is being fetched is not unknown: who may use it is told how far it is."""
        if refused.code != "model_not_found" or not model:
            return refused
        try:
            rows = await self._rows.ask()
        except Refused as error:
            logger.warning("whether %s is being downloaded is not known: %s", model, error)
            return refused
        found = next((row for row in rows if model in (row.name, row.target)), None)
        if found is None or not caller.may_use((found.name,)):
            return refused
        return downloading(found)

    async def close(self) -> None:
        await self._rows.close()
        await self._thread.close()


def _are_there(names: Collection[str]) -> dict[str, bool]:
    rows = Download.objects.filter(name__in=names).order_by("pk")
    return {name: state == Download.State.DONE for name, state in rows.values_list("name", "state")}


def entry_of(row: Download) -> dict[str, Any]:
    """As llama.cpp's router lists it; the progress is in it as well."""
    status: dict[str, Any] = {"value": "downloading", "progress": shown.progress_of(row)}
    if row.state != Download.State.RUNNING:
        status["detail"] = str(row.state)
    if row.error:
        status["reason"] = row.error
    return {
        "id": row.name,
        "aliases": [],
        "tags": [],
        "object": "model",
        "owned_by": "llamacpp",
        "created": int(row.created_at.timestamp()),
        "source": "cache" if row.kind == Download.Kind.HUB else "download",
        "can_remove": True,
        "architecture": TEXT,
        "status": status,
    }


def downloading(row: Download) -> Refused:
    """Retry-After is what it still takes, where somebody knows."""
    seconds = shown.remaining_seconds(row)
    paused = row.state == Download.State.PAUSED
    where = "its download is paused" if paused else f"it is being downloaded: {shown.in_words(row)}"
    return Refused(
        "model_downloading",
        f"{row.name} is not there yet: {where}.",
        retry_after_seconds=min(
            _LONGEST_WAIT_SECONDS, seconds if seconds is not None else _UNKNOWN_WAIT_SECONDS
        ),
    )
