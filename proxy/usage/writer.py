"""A web process's part of usage: what it has counted is in its journal at once, and the journal is
anybody's about a second later. `proxy/usage/bringing_in.py` makes rows of it, in the jobs process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from proxy.usage.journal import Journal
from proxy.usage.record import Record

logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
LOOK_SECONDS = 10.0
"""Between two looks at the folder when nothing is written."""


class UsageWriter:
    """One per process and event loop."""

    def __init__(
        self,
        journal: Journal,
        every_seconds: float = EVERY_SECONDS,
        *,
        noted: Callable[[Record], None] | None = None,
    ) -> None:
        """`noted` is told of each record as well."""
        self._journal = journal
        self._noted = noted
        self._every_seconds = every_seconds
        self._written = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="usage")

    def refuse_if_full(self) -> None:
        """Raises Refused `usage_unavailable`."""
        self._journal.refuse_if_full()

    @property
    def waiting_bytes(self) -> int:
        """What is not in the database yet."""
        return self._journal.waiting_bytes

    def write(self, record: Record) -> None:
        """Into the journal, at once."""
        self._journal.write(record)
        self._written.set()
        if self._noted is not None:
            self._noted(record)

    async def close(self) -> None:
        """What was written is in the journal, for whoever comes next."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._journal.held:
            self._journal.write_held()
        self._journal.let_go()

    async def _run(self) -> None:
        while True:
            try:
                self._round()
            except Exception:  # one round that fails must not be the last
                logger.exception("The usage journal cannot be looked after")
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._written.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(self._every_seconds)

    def _round(self) -> None:
        self._written.clear()
        journal = self._journal
        if journal.held:
            journal.write_held()
        journal.look()
        if not journal.waits_for_others:  # else the file goes on: one a second would be many
            journal.let_go()
        if journal.held or journal.is_open or journal.waits_for_others:
            self._written.set()  # there is something left to do
