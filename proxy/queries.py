"""Database work of the gateway's, each kind in a thread of its own: none waits for another's.

Django's own thread (`database_sync_to_async`) is one for all: a write that waits for a lock, or a
slow list, would hold up every look-up of a key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOCK_WAIT = {"sqlite": "PRAGMA busy_timeout = %d", "postgresql": "SET lock_timeout = %d"}
LATE_SECONDS = 5.0
"""After which a list is told as it last was."""
LATE_AGAIN_SECONDS = 0.1
AWAY = (OperationalError, InterfaceError)
"""The database fails, not the query."""
CLOSE_SECONDS = 5.0
"""How long a query that is under way may hold up the end."""


class DatabaseThread:
    """One thread with its own connection, which it keeps. It starts with its first work."""

    def __init__(self, name: str, *, lock_wait_milliseconds: int | None = None) -> None:
        """What it asks fails after `lock_wait_milliseconds` when another process is writing."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock_wait_milliseconds = lock_wait_milliseconds
        self._used = False
        self._closed = False

    async def run(self, function: Callable[[], T]) -> T:
        """Raises what it raises, or Refused `shutting_down` after `close`."""
        if self._closed:
            raise _shutting_down()
        self._used = True
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._call, function)

    async def close(self) -> None:
        """Give the connection back and end the thread. May be called again."""
        if self._used and not self._closed:
            loop = asyncio.get_running_loop()
            closing = loop.run_in_executor(self._executor, connections.close_all)
            _, late = await asyncio.wait([closing], timeout=CLOSE_SECONDS)
            if late:
                logger.warning("A query is still under way at the end: nobody waits for it")
        self._closed = True
        self._executor.shutdown(wait=False)

    def _call(self, function: Callable[[], T]) -> T:
        connection = connections["default"]
        if connection.errors_occurred or not _lives(connection):
            connection.close()
        if connection.connection is None and self._lock_wait_milliseconds is not None:
            connection.ensure_connection()
            with connection.cursor() as cursor:
                cursor.execute(_LOCK_WAIT[connection.vendor] % self._lock_wait_milliseconds)
        return function()


class Shared(Generic[T]):
    """One query for all who ask at about the same time.

    Whoever asks gets a result whose query began after the asking, so nothing is stale; queries run
    one at a time and begin at least `spacing_seconds` apart, so a flood costs no more than a few.
    """

    def __init__(
        self, thread: DatabaseThread, query: Callable[[], T], spacing_seconds: float
    ) -> None:
        self._thread = thread
        self._query = query
        self._spacing_seconds = spacing_seconds
        self._begun = float("-inf")
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def ask(self) -> T:
        """Raises what the query raises, or Refused `shutting_down`."""
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._run(self._running), name="shared query")
            self._next.add_done_callback(_seen)
        asked, task = self._next, asyncio.current_task()
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            if asked.cancelled() and (task is None or not task.cancelling()):
                raise _shutting_down() from None
            raise

    async def close(self) -> None:
        tasks = [task for task in (self._running, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, before: asyncio.Task[T] | None) -> T:
        if before is not None and not before.done():
            await asyncio.wait([before])
        loop = asyncio.get_running_loop()
        wait = self._begun + self._spacing_seconds - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        self._begun = loop.time()
        self._running, self._next = self._next, None  # who asks from here on gets the next one
        return await self._thread.run(self._query)


class Remembered(Generic[T]):
    """A shared query whose last answer counts while the database fails or hangs."""

    def __init__(self, shared: Shared[T]) -> None:
        self._shared = shared
        self._last: tuple[T] | None = None
        self._late = False
        """The last one who asked has waited in vain."""

    async def ask(self) -> T:
        """Raises Refused: `database_unavailable` when nothing is known, or `shutting_down`."""
        try:
            async with asyncio.timeout(LATE_AGAIN_SECONDS if self._late else LATE_SECONDS):
                answer = await self._shared.ask()
        except (*AWAY, TimeoutError) as error:
            self._late = isinstance(error, TimeoutError)
            refused = database_away(error)
            if self._last is None:
                raise refused from error
            return self._last[0]
        self._last, self._late = (answer,), False
        return answer

    async def close(self) -> None:
        await self._shared.close()


def database_away(error: Exception) -> Refused:
    """For the client; the log is told the reason."""
    logger.error("The database cannot be asked: %s", error or "it is too slow")
    return Refused(
        "database_unavailable",
        "The database does not answer at the moment.",
        retry_after_seconds=1.0,
    )


def _lives(connection: BaseDatabaseWrapper) -> bool:
    """A server that was started anew has forgotten us."""
    return connection.connection is None or connection.is_usable()


def _shutting_down() -> Refused:
    return Refused("shutting_down", "The gateway is shutting down.", retry_after_seconds=5.0)


def _seen(task: asyncio.Task[T]) -> None:
    """An error that nobody waits for any more is no news."""
    if not task.cancelled():
        task.exception()
