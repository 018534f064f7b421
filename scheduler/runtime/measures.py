"""Orders measurements and reads what they found: presets' memory fingerprints against the rows.

It looks every ten seconds, and at once when the registry changed. The presets are read anew at each
look, so that a file that was replaced behind the registry's back counts as changed. Everything that
may block happens in a thread with a connection of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.db import DatabaseError, close_old_connections, connections

from models_registry import measurements
from models_registry.launch import LaunchSpec, launch_specs
from scheduler.measuring.ordering import QueueAway, order_due

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    specs: tuple[LaunchSpec, ...]
    figures: Mapping[str, Mapping[str, int]]
    """By memory fingerprint."""


class Orders:
    """Blocking, for a thread that is its own."""

    def look(self) -> Look:
        """What the rows know, after what is due was put on the queue."""
        close_old_connections()
        specs = tuple(launch_specs())
        order_due(specs)
        return Look(specs, measurements.figures_of(specs))

    def close(self) -> None:
        connections.close_all()


class Measures:
    """`watch()` is the task; `look_soon()` hurries it."""

    def __init__(
        self, orders: Orders | None = None, *, look_every_seconds: float = LOOK_EVERY_SECONDS
    ) -> None:
        self._orders = orders or Orders()
        self._look_every_seconds = look_every_seconds
        self._soon = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measures")

    def look_soon(self) -> None:
        self._soon.set()

    async def watch(self, found: Callable[[Look], None]) -> None:
        """Until cancelled. A look that fails is repeated; models run without figures."""
        loop = asyncio.get_running_loop()
        while True:
            self._soon.clear()
            try:
                look = await loop.run_in_executor(self._thread, self._orders.look)
            except (DatabaseError, QueueAway) as failure:
                logger.warning("measurements could not be ordered or read: %s", failure)
            except Exception:  # a row, or an engine's help, that we cannot read
                logger.exception("measurements could not be ordered or read")
            else:
                found(look)
            await self._wait()

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._orders.close)
        self._thread.shutdown()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._look_every_seconds):
                await self._soon.wait()
        except TimeoutError:
            pass
