"""Readings of the registry that one connection asks for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

ReadRegistry = Callable[[], Awaitable[int]]
"""Reads the registry and returns its revision once the owner has it."""


class Reloads:
    def __init__(self, reload: ReadRegistry, refuse: Callable[[int, Refused], None]) -> None:
        """`refuse` answers the operation of that id."""
        self._reload = reload
        self._refuse = refuse
        self._tasks: set[asyncio.Task[None]] = set()

    def read(self, id: int, then: Callable[[int], None]) -> None:
        """`then` gets the revision."""
        task = asyncio.get_running_loop().create_task(self._read(id, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _read(self, id: int, then: Callable[[int], None]) -> None:
        try:
            revision = await self._reload()
        except Exception:
            logger.exception("the registry could not be read")
            self._refuse(id, Refused("internal_error", "the registry could not be read"))
            return
        then(revision)
