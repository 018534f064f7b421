"""Answers /metrics: asks the scheduler and the models, and writes the page in a thread. What is
counted for it is told to OpenTelemetry as well, where that is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from proxy.metrics import children
from proxy.metrics.noting import Noting
from proxy.metrics.page import page
from proxy.telemetry.noting import TelemetryNoting
from proxy.usage.record import Record
from scheduler.client import SchedulerClient

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Of one process and event loop. One page is written at a time, however many ask."""

    def __init__(
        self, scheduler: Callable[[], Awaitable[SchedulerClient]], telemetry: Collection[str] = ()
    ) -> None:
        """`scheduler` raises Refused when the gateway takes nothing new. `telemetry`: the signals
        of OpenTelemetry that are wanted."""
        self._telemetry = TelemetryNoting(telemetry) if telemetry else None
        self._scheduler = scheduler
        self._noting = Noting(scheduler)
        self._turn = asyncio.Lock()

    def note(self, record: Record) -> None:
        self._noting.note(record)
        if self._telemetry is not None:
            self._telemetry.note(record)

    async def page(self) -> bytes:
        """Raises Refused."""
        async with self._turn:
            await self._noting.tell()
            scheduler = await self._scheduler()
            figures, live, devices = await asyncio.gather(
                scheduler.figures(), scheduler.snapshot(), scheduler.devices()
            )
            told = await children.ask(figures.addresses)
            return await asyncio.to_thread(page, figures.tallied, live, devices, told)

    async def close(self) -> None:
        await self._noting.close()
        if self._telemetry is not None:
            await self._telemetry.close()
