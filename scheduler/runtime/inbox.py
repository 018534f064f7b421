"""What is posted to the owner of the planner, in its order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """For one event loop. `run` hands to `take` what was put, one item at a time, as long as
    `goes_on`. Asyncio's queue, which can do more, cost a tenth of what a request costs the
    scheduler."""

    def __init__(self, take: Callable[[Item], None], goes_on: Callable[[], bool]) -> None:
        self._take = take
        self._goes_on = goes_on
        self._items: deque[Item] = deque()
        self._awaited: asyncio.Future[None] | None = None
        self._running = False
        self._quiet = False
        self._bug: Exception | None = None

    def put(self, item: Item) -> None:
        self._items.append(item)
        if not self._quiet:
            self._wake()

    async def run(self) -> None:
        """Raises what `take` has raised, whoever has come upon it."""
        self._running = True
        try:
            while self._goes_on():
                if not self._items:
                    self._awaited = asyncio.get_running_loop().create_future()
                    await self._awaited
                    self._awaited = None
                self._work()
                if self._bug is not None:
                    raise self._bug
        finally:
            self._running = False

    def together(self, do: Callable[[], None]) -> None:
        """What `do` puts is taken before this returns, and not in a turn of the loop of its own:
        two of them cost as much as a decision. Only for callbacks of the event loop."""
        self._quiet = True
        try:
            do()
            if self._running:
                self._work()
        finally:
            self._quiet = False
            if self._items or self._bug is not None or not self._goes_on():
                self._wake()

    def _work(self) -> None:
        items = self._items
        try:
            while items and self._bug is None and self._goes_on():
                self._take(items.popleft())
        except Exception as bug:
            self._bug = bug

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
