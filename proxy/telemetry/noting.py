"""Records of this process on their way to OpenTelemetry: told once a second, in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from proxy.usage.record import Record
from scheduler.telemetry import telemetry_of

if TYPE_CHECKING:
    from proxy.telemetry.figures import Figures
    from proxy.telemetry.spans import Spans
    from scheduler.otlp import Telemetry

logger = logging.getLogger(__name__)

TELL_SECONDS = 1.0
MOST_WAITING = 20_000
"""Records; beyond them some are not told."""
MOST_TRIED = 1_000
"""Requests of which a try has failed and another one is under way."""


class TelemetryNoting:
    """Of one process and event loop. To note costs a request an entry in a list."""

    def __init__(self, signals: Collection[str]) -> None:
        self._signals = signals
        self._records: list[Record] = []
        self._telling: asyncio.Task[None] | None = None
        self._teller: _Teller | None = None
        self._dropped = False

    def note(self, record: Record) -> None:
        if len(self._records) >= MOST_WAITING:
            if not self._dropped:
                logger.warning("telemetry falls behind: some requests are not told")
            self._dropped = True
            return
        self._records.append(record)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_soon(), name="telemetry")

    async def close(self) -> None:
        """What is left is sent, if that takes no longer than a moment."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._records or self._teller is not None:
            await asyncio.to_thread(self._end, self._take())

    async def _tell_soon(self) -> None:
        while self._records:
            await asyncio.sleep(TELL_SECONDS)
            await asyncio.to_thread(self._tell, self._take())

    def _take(self) -> list[Record]:
        records, self._records = self._records, []
        return records

    def _tell(self, records: Sequence[Record]) -> None:
        """In a thread, one call at a time."""
        if self._teller is None:
            self._teller = _Teller(self._signals)
        self._teller.tell(records)

    def _end(self, records: Sequence[Record]) -> None:
        self._tell(records)
        assert self._teller is not None
        self._teller.close()


class _Teller:
    """Made where it is used: the libraries' import takes a third of a second."""

    def __init__(self, signals: Collection[str]) -> None:
        from proxy.telemetry.figures import Figures
        from proxy.telemetry.spans import Spans

        telemetry = telemetry_of("web", signals)
        assert telemetry is not None
        self._telemetry: Telemetry = telemetry
        self._spans: Spans = Spans(telemetry)
        self._figures: Figures = Figures(telemetry.meter)
        self._tried: dict[tuple[str, float], list[Record]] = {}

    def tell(self, records: Sequence[Record]) -> None:
        for record in records:
            request = (record.request_id, record.at)
            if not record.final:
                self._tried.setdefault(request, []).append(record)
                if len(self._tried) > MOST_TRIED:  # those whose end was never told
                    del self._tried[next(iter(self._tried))]
                continue
            try:
                self._spans.tell([*self._tried.pop(request, ()), record])
                self._figures.tell(record)
            except Exception:  # one record must not be the end of all that come after it
                logger.exception("the request %s cannot be told", record.request_id)

    def close(self) -> None:
        self._telemetry.close()
