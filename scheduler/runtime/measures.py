"""Orders measurements and reads what they found: presets' memory fingerprints against the rows.

It looks every ten seconds, and at once when the registry changed. The presets are read anew at each
look, so that a file that was replaced behind the registry's back counts as changed. Everything that
may block happens in a thread with a connection of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import DatabaseError, close_old_connections, connections

from models_registry import measurements
from models_registry.gguf.header import UnreadableHeader
from models_registry.launch import LaunchSpec, launch_specs
from models_registry.measurements import StoredShape
from scheduler.measuring.estimating import estimated_data
from scheduler.measuring.ordering import QueueAway, order_due, order_first
from scheduler.measuring.shapes import NoShape, shape_of, unreported_of

from .declared import learned_shapes
from .figures import KnownShape, is_declared
from .recorded_surplus import Surplus, recorded_surplus

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    specs: tuple[LaunchSpec, ...]
    figures: Mapping[str, Mapping[str, int]]
    """By memory fingerprint, as are the shapes."""
    shapes: Mapping[str, KnownShape] = field(default_factory=dict)


class Orders:
    """Blocking, for a thread that is its own."""

    def __init__(self) -> None:
        self._stored: Mapping[str, StoredShape] = {}
        self._surplus: Mapping[str, Surplus] | None = None
        self._shapes: dict[str, KnownShape] = {}
        self._estimates: dict[str, KnownShape] = {}

    def look(self, estimate: Collection[str] = (), first: Collection[str] = ()) -> Look:
        """What the rows know, after what is due was put on the queue, the presets named in `first`
        before all others. Of those in `estimate` that are not measured, the shape by their headers.
        """
        close_old_connections()
        specs = tuple(launch_specs())
        measured = [spec for spec in specs if not is_declared(spec)]
        order_due(measured)
        order_first([s for s in measured if s.preset in first and s.memory_fingerprint])
        if self._surplus is None:
            self._surplus = recorded_surplus()
        before, self._stored = self._stored, measurements.shapes_of(measured, self._stored)
        self._shapes = {
            fingerprint: shape
            for fingerprint, stored in self._stored.items()
            if (shape := self._shape(fingerprint, stored, before)) is not None
        }
        self._estimate(spec for spec in measured if spec.preset in estimate)
        shapes = {**self._estimates, **self._shapes, **learned_shapes(specs)}
        return Look(specs, measurements.figures_of(measured), shapes)

    def _shape(
        self, fingerprint: str, stored: StoredShape, before: Mapping[str, StoredShape]
    ) -> KnownShape | None:
        if before.get(fingerprint) is stored:
            return self._shapes.get(fingerprint)
        try:
            known = _known(stored.data, estimated=stored.estimated)
        except NoShape as failure:
            logger.warning("a stored shape cannot be read: %s", failure)
            return None
        taken = (self._surplus or {}).get(fingerprint)
        if taken is None or taken.at < stored.measured_at:
            return known  # nothing was taken beyond these figures
        return replace(known, surplus=taken.bytes)

    def _estimate(self, specs: Iterable[LaunchSpec]) -> None:
        """Once for a fingerprint; what was measured since is forgotten here."""
        for spec in specs:
            fingerprint = spec.memory_fingerprint
            if spec.problem or not fingerprint or fingerprint in self._estimates:
                continue
            try:
                known = _known(estimated_data(spec), estimated=True)
                self._estimates[fingerprint] = replace(known, pending=True)
            except (UnreadableHeader, NoShape) as unreadable:
                logger.warning("%s cannot be estimated: %s", spec.preset, unreadable)
        for measured in self._shapes.keys() & self._estimates.keys():
            del self._estimates[measured]

    def close(self) -> None:
        connections.close_all()


def _known(data: Mapping[str, Any], *, estimated: bool) -> KnownShape:
    return KnownShape(shape_of(data), estimated, unreported=unreported_of(data))


class Measures:
    """`watch()` is the task; `look_soon()` hurries it."""

    def __init__(
        self, orders: Orders | None = None, *, look_every_seconds: float = LOOK_EVERY_SECONDS
    ) -> None:
        self._orders = orders or Orders()
        self._look_every_seconds = look_every_seconds
        self._soon = asyncio.Event()
        self._to_estimate: set[str] = set()
        self._first: set[str] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measures")

    def look_soon(self) -> None:
        self._soon.set()

    def hurry(self, preset: str) -> None:
        """It is waited for: measure it before all others."""
        self._first.add(preset)
        self._soon.set()

    def estimate_soon(self, preset: str) -> None:
        """It is waited for, and its measurement is late: go by its header meanwhile."""
        self._to_estimate.add(preset)
        self._soon.set()

    async def watch(self, found: Callable[[Look], None]) -> None:
        """Until cancelled. A look that fails is repeated; models run without figures."""
        loop = asyncio.get_running_loop()
        while True:
            self._soon.clear()
            asked, first = frozenset(self._to_estimate), frozenset(self._first)
            try:
                look = await loop.run_in_executor(self._thread, self._orders.look, asked, first)
            except (DatabaseError, QueueAway) as failure:
                logger.warning("measurements could not be ordered or read: %s", failure)
            except Exception:  # a row, or an engine's help, that we cannot read
                logger.exception("measurements could not be ordered or read")
            else:
                self._to_estimate -= asked  # what a failed look did not do is still wanted
                self._first -= first
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
