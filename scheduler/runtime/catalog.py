"""The only door to the registry's rows: what can be started, read again when it changes.

It looks every two seconds, and at once when it is told of a change. The queries run in a thread
with a connection of its own, never on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.db import DatabaseError, close_old_connections, connections

from models_registry.downloads.asking import coming_names
from models_registry.launch import LaunchSpec, launch_specs, registry_revision
from models_registry.outside import outside_state
from scheduler.limits import device_limits

from .devices.limits import Limits
from .offer import Offer

logger = logging.getLogger(__name__)

NO_LIMITS = Limits()
LOOK_EVERY_SECONDS = 2.0
READ_ANYHOW_EVERY = 15
"""Looks after which the rows are read although their revision is the same: a model file may have
been replaced behind the registry's back."""


@dataclass(frozen=True, slots=True)
class Reading:
    revision: int
    specs: tuple[LaunchSpec, ...]
    limits: Limits = NO_LIMITS
    coming: frozenset[str] = frozenset()
    """Names of models that are being fetched."""


class Registry:
    """Blocking reads, for a thread that is the catalog's own."""

    def revision(self) -> int:
        close_old_connections()
        return registry_revision()

    def read(self) -> Reading:
        """The revision first: rows that change meanwhile are read again at the next look."""
        close_old_connections()
        revision = registry_revision()
        return Reading(revision, tuple(launch_specs()), device_limits(), coming_names())

    def outside(self, files: Sequence[str]) -> object:
        """Another one when what cannot be started may have been cured."""
        return outside_state(files)

    def close(self) -> None:
        connections.close_all()


class Catalog:
    def __init__(
        self,
        changed: Callable[[Offer], None],
        *,
        stop_timeout_seconds: float,
        limits_changed: Callable[[Limits], None] = lambda limits: None,
        registry: Registry | None = None,
        look_every_seconds: float = LOOK_EVERY_SECONDS,
    ) -> None:
        self._changed = changed
        self._limits_changed = limits_changed
        self._stop_timeout_seconds = stop_timeout_seconds
        self._registry = registry or Registry()
        self._look_every_seconds = look_every_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="catalog")
        self._reading = asyncio.Lock()
        self._last: Reading | None = None
        self._looks = 0
        self._said = ""
        self._outside: object = None
        """Of the files of what cannot be started, as of the last look."""

    async def read(self) -> int:
        """The rows as they now are, told to the owner if they differ; returns their revision."""
        async with self._reading:
            loop = asyncio.get_running_loop()
            reading = await loop.run_in_executor(self._thread, self._registry.read)
            if reading != self._last:
                if self._last is None or reading.limits != self._last.limits:
                    self._limits_changed(reading.limits)
                self._last = reading
                self._changed(self._offer(reading))
            return reading.revision

    async def watch(self) -> None:
        """Until cancelled. What cannot be read, for whatever reason, is read again at the next
        look: until then the old presets stay."""
        while True:
            await asyncio.sleep(self._look_every_seconds)
            try:
                if await self._is_due():
                    await self.read()
            except Exception as failure:
                self.say_unreadable(failure)

    def say_unreadable(self, failure: Exception) -> None:
        """Where it failed is said once; a database that is away says it itself."""
        known = isinstance(failure, DatabaseError) or repr(failure) == self._said
        self._said = repr(failure)
        logger.error(
            "the registry cannot be read, what was known of it stays: %s",
            failure,
            exc_info=None if known else failure,
        )

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._registry.close)
        self._thread.shutdown()

    async def _is_due(self) -> bool:
        self._looks += 1
        if self._last is None or self._looks % READ_ANYHOW_EVERY == 0:
            return True
        loop = asyncio.get_running_loop()
        revision = await loop.run_in_executor(self._thread, self._registry.revision)
        return revision != self._last.revision or await self._may_be_cured()

    async def _may_be_cured(self) -> bool:
        """What cannot be started may be cured outside the registry: by a file put back."""
        assert self._last is not None
        files = [file for spec in self._last.specs if spec.problem for file in spec.files]
        before = self._outside
        if not any(spec.problem for spec in self._last.specs):
            self._outside = None
            return False
        loop = asyncio.get_running_loop()
        self._outside = await loop.run_in_executor(self._thread, self._registry.outside, files)
        return self._outside != before

    def _offer(self, reading: Reading) -> Offer:
        return Offer.of(reading.revision, reading.specs, self._stop_timeout_seconds, reading.coming)
