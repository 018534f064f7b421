"""What a web process is carrying: told to end when the process has to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from proxy.watch import Cause, Watch
from scheduler.protocol import Refused

CUT_SECONDS = 1.0
"""After the drain timeout: what the last words to the clients may take."""


class UnderWay:
    def __init__(self) -> None:
        self.draining = asyncio.Event()
        """Nothing new is taken."""
        self._watches: set[Watch] = set()
        self._none = asyncio.Event()
        self._none.set()

    def refuse_while_draining(self) -> None:
        """Raises Refused."""
        if self.draining.is_set():
            raise Refused("shutting_down", "The gateway is shutting down.", retry_after_seconds=5.0)

    def watches(self) -> list[Watch]:
        return list(self._watches)

    @contextmanager
    def one(self, watch: Watch) -> Iterator[None]:
        """As long as the block runs it is waited for. The watch is closed after it."""
        self.enter(watch)
        try:
            yield
        finally:
            watch.close()
            self.leave(watch)

    def enter(self, watch: Watch) -> None:
        self._watches.add(watch)
        self._none.clear()

    def leave(self, watch: Watch) -> None:
        self._watches.discard(watch)
        if not self._watches:
            self._none.set()

    async def drain(self, timeout_seconds: float) -> None:
        """Take no new work; let what is under way end for that long, but what only waits at once;
        interrupt the rest."""
        self.draining.set()
        for watch in list(self._watches):
            if watch.queued or watch.unattended:
                watch.interrupt(Cause.SHUTDOWN)
        if not await self._all_ended(timeout_seconds):
            for watch in list(self._watches):
                watch.interrupt(Cause.SHUTDOWN)
            await self._all_ended(CUT_SECONDS)

    async def _all_ended(self, within_seconds: float) -> bool:
        try:
            async with asyncio.timeout(within_seconds):
                await self._none.wait()
        except TimeoutError:
            return False
        return True
