"""This process's share of the figures: told to the scheduler once a second, off the way of any
request."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from proxy.metrics import families
from proxy.usage.record import Record
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused
from scheduler.tally import Tally

logger = logging.getLogger(__name__)

TELL_SECONDS = 1.0
TOLD_AT_ONCE = 1000
"""Figures in a line."""


def count_records(records: Iterable[Record], tally: Tally) -> None:
    for record in records:
        model, team = record.preset, record.team
        of_model = (model,)
        tally.count(families.REQUESTS, (model, team, record.code or _outcome(record.status)))
        for kind in ("read", "cached", "answered"):
            if tokens := getattr(record, kind):
                tally.count(families.TOKENS, (model, team, kind), tokens)
        for name, seconds in (
            (families.DURATION, record.duration),
            (families.FIRST_TOKEN, record.first_token),
            (families.PER_TOKEN, seconds_per_token(record)),
            (families.QUEUE_WAIT, record.queue_wait),
            (families.LOAD_WAIT, record.load_wait),
        ):
            if seconds is not None:
                tally.spread(name, of_model, seconds)


def _outcome(status: int) -> str:
    return "ok" if status < 400 else f"http_{status}"


def seconds_per_token(record: Record) -> float | None:
    """Of streams: a whole answer's first byte comes with its last."""
    if not record.stream or record.duration is None or record.first_token is None:
        return None
    if record.answered is None or record.answered < 2:
        return None
    return (record.duration - record.first_token) / (record.answered - 1)


class Noting:
    """Of one process and event loop. What cannot be told is told later, all of it."""

    def __init__(self, scheduler: Callable[[], Awaitable[SchedulerClient]]) -> None:
        """`scheduler` raises Refused when the gateway takes nothing new."""
        self._scheduler = scheduler
        self._records: list[Record] = []
        self._untold = Tally()
        self._telling: asyncio.Task[None] | None = None

    def note(self, record: Record) -> None:
        self._records.append(record)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_soon(), name="metrics")

    async def tell(self) -> None:
        """What has come so far. Raises Refused."""
        records, self._records = self._records, []
        count_records(records, self._untold)
        if not self._untold:
            return
        scheduler = await self._scheduler()
        untold = deque(self._untold.take().parts(TOLD_AT_ONCE))
        try:
            while untold:
                await scheduler.tell(untold[0])
                untold.popleft()
        finally:
            for part in untold:
                self._untold.add(part)

    async def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    async def _tell_soon(self) -> None:
        while self._records or self._untold:
            await asyncio.sleep(TELL_SECONDS)
            try:
                await self.tell()
            except Refused as refused:
                logger.debug("figures are told later: %s", refused)
