"""GET /models?reload=…: the sources of models are read again before the list is told."""

from __future__ import annotations

import logging

from django.db import DatabaseError

from models_registry.audit.actors import job as audited_job
from models_registry.tasks import rescan_sources
from proxy.queries import DatabaseThread, Shared
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

SPACING_SECONDS = 1.0
"""A rescan reads folders: all who ask for one within this time share it."""


def reload_asked(query: bytes) -> bool:
    """llama.cpp's `?reload=`: any value that is not empty."""
    parts = (part.partition(b"=") for part in query.split(b"&"))
    return any(name == b"reload" and value for name, _, value in parts)


class Reload:
    """One rescan at a time in this process; who asks meanwhile shares the next one."""

    def __init__(self) -> None:
        self._thread = DatabaseThread("reload")
        self._rescan = Shared(self._thread, rescan_and_tell, SPACING_SECONDS)

    async def done(self) -> None:
        """What could not be read is told in the log: there is a list all the same. Raises Refused
        when the presets file has a fault, and nothing was changed."""
        await self._rescan.ask()

    async def close(self) -> None:
        await self._rescan.close()
        await self._thread.close()


def rescan_and_tell() -> None:
    try:
        with audited_job("GET /models?reload"):
            report = rescan_sources()
    except DatabaseError as error:
        logger.warning("reload: the registry cannot be written: %s", error)
        return
    for line in report.lines():
        logger.info("reload: %s", line)
    if report.presets_fault:
        raise Refused("validation_failed", f"Nothing was changed: {report.presets_fault}")
