"""Brings journals into the database, in the background: about once a second while there is
something to bring."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from proxy.queries import DatabaseThread
from proxy.usage.journal import Journal
from proxy.usage.record import Record
from proxy.usage.taking_up import TakenUp, take_up
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
LOOK_SECONDS = 10.0
"""Between two looks for the journals of processes that were killed."""
LOCK_WAIT_MILLISECONDS = 1000
CLOSE_SECONDS = 5.0


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
        self._thread = DatabaseThread("usage", lock_wait_milliseconds=LOCK_WAIT_MILLISECONDS)
        self._written = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="usage")

    def refuse_if_full(self) -> None:
        """Raises Refused `usage_unavailable`."""
        self._journal.refuse_if_full()

    def write(self, record: Record) -> None:
        """Into the journal, at once."""
        self._journal.write(record)
        self._written.set()
        if self._noted is not None:
            self._noted(record)

    async def close(self) -> None:
        """What was written is brought in, if that takes no longer than a moment; else it stays in
        the journal for whoever comes next."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._round()
            except TimeoutError:
                logger.warning("Usage is still being written at the end: the journal keeps it")
        self._journal.let_go()
        await self._thread.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except Exception:  # one round that fails must not be the last
                logger.exception("Usage cannot be written: the journal keeps it")
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._written.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(self._every_seconds)

    async def _round(self) -> None:
        self._written.clear()
        if self._journal.held:
            self._journal.write_held()
        if not self._failing:  # else the file goes on: one a second would be many
            self._journal.let_go()
        try:
            taken = await self._thread.run(partial(take_up, self._journal.folder))
        except Refused:
            return  # the thread is closed
        self._journal.waits(taken.waiting)
        self._tell(taken)
        if taken.failed or self._journal.held or self._journal.is_open:
            self._written.set()  # there is something left to do

    def _tell(self, taken: TakenUp) -> None:
        failing = bool(taken.failed)
        if failing and not self._failing:
            logger.error("Usage stays in the journal, the database fails: %s", taken.failed)
        elif self._failing and not failing:
            logger.info("Usage is written again: %d records", taken.records)
        self._failing = failing
