"""Writes the record: entries in, rows in batches out, in a thread with its own connection.

The event loop never waits for it. A database that fails is tried again; when too much waits, what
is new is dropped and said so. Scheduling goes on in any case.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import DatabaseError, close_old_connections, connections, transaction
from django.utils import timezone

from scheduler.core.sizes import loaded
from scheduler.core.values import InstanceId
from scheduler.models import DecisionRecord, InstanceRecord

from .memory import by_device
from .record import Allocated, Cached, Decided, Entry, Gone, Loaded, Started

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 20_000
BATCH_LIMIT = 500
GATHER_SECONDS = 0.1
RETRY_SECONDS = 1.0
REFUSALS_EVERY_SECONDS = 1.0
"""Equal refusals within this time become one row: a client may ask a thousand times a second."""


class Recorder:
    """Calling it records an entry, from any thread, at once. `start()` before, `stop()` after."""

    def __init__(
        self, *, queue_limit: int = QUEUE_LIMIT, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._entries: queue.Queue[Entry | None] = queue.Queue(queue_limit)
        self._retry_seconds = retry_seconds
        self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._stopping = threading.Event()
        self._ended = False
        self._dropped = 0
        self._rows: dict[InstanceId, int] = {}
        self._refusals: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, entry: Entry) -> None:
        if isinstance(entry, Decided) and entry.kind == "reject":
            thinned = self._thinned(entry)
            if thinned is None:
                return
            entry = thinned
        try:
            self._entries.put_nowait(entry)
        except queue.Full:
            if self._dropped == 0:
                logger.error("the record falls behind: what happens now is not recorded")
            self._dropped += 1

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """What waits is written first, if the database takes it in that time."""
        self._stopping.set()
        try:
            self._entries.put(None, timeout=seconds)
        except queue.Full:
            logger.error("the record could not be completed")
        self._thread.join(seconds)

    def _thinned(self, entry: Decided) -> Decided | None:
        """None for a refusal that has just been recorded; the next row counts it."""
        now = time.monotonic()
        key = (entry.preset, entry.reason)
        last, unwritten = self._refusals.get(key, (float("-inf"), 0))
        if now - last < REFUSALS_EVERY_SECONDS:
            self._refusals[key] = (last, unwritten + 1)
            return None
        self._refusals[key] = (now, 0)
        return replace(entry, figures={**entry.figures, "requests": unwritten + 1})

    # In the thread -------------------------------------------------------------------------

    def _write_all(self) -> None:
        try:
            self._until_written(self._close_open_rows)
            while batch := self._next_batch():
                self._until_written(partial(self._write, batch))
        finally:
            connections.close_all()

    def _next_batch(self) -> list[Entry]:
        """Empty at the end."""
        batch: list[Entry] = []
        until = time.monotonic() + GATHER_SECONDS
        while not self._ended and len(batch) < BATCH_LIMIT:
            wait = None if not batch else max(0.001, until - time.monotonic())
            try:
                entry = self._entries.get(timeout=wait)
            except queue.Empty:
                break
            if entry is None:
                self._ended = True
                break
            if not batch:
                until = time.monotonic() + GATHER_SECONDS
            batch.append(entry)
        return batch

    def _until_written(self, write: Callable[[], None]) -> None:
        """Tried again until it works; at the end of the scheduler once more, no longer."""
        while True:
            last_try = self._stopping.is_set()
            try:
                close_old_connections()
                write()
                return
            except DatabaseError as failure:
                logger.warning("the record could not be written: %s", failure)
                connections.close_all()
            if last_try:
                logger.error("a part of the record is lost")
                return
            self._stopping.wait(self._retry_seconds)

    def _close_open_rows(self) -> None:
        """What a scheduler that was killed left open: its children died with it."""
        InstanceRecord.objects.filter(ended_at=None).update(
            ended_at=timezone.now(), reason="scheduler_died"
        )

    def _write(self, batch: Sequence[Entry]) -> None:
        """All of it or nothing."""
        rows = dict(self._rows)
        decisions = []
        with transaction.atomic():
            for entry in batch:
                if isinstance(entry, Decided):
                    decisions.append(_decision(entry, rows))
                else:
                    _write_instance(entry, rows)
            DecisionRecord.objects.bulk_create(decisions)
        for entry in batch:
            if isinstance(entry, Gone):
                rows.pop(entry.instance, None)
        self._rows = rows


def _write_instance(
    entry: Started | Loaded | Allocated | Cached | Gone, rows: dict[InstanceId, int]
) -> None:
    if isinstance(entry, Started):
        placement = entry.grant.placement
        row = InstanceRecord.objects.create(
            preset=entry.preset,
            revision=entry.revision,
            started_at=entry.at,
            placement=str(placement.kind),
            layers=dict(placement.layers),
            context=entry.grant.context,
            predicted=by_device(loaded(entry.grant.need)),
            figures=entry.figures,
            surplus=dict(entry.grant.surplus),
        )
        rows[entry.instance] = row.pk
        return
    row_key = rows.get(entry.instance)
    if row_key is None:
        return  # its start was dropped or lost
    changed = InstanceRecord.objects.filter(pk=row_key)
    if isinstance(entry, Allocated):
        changed.update(actual=by_device(entry.need))
        return
    if isinstance(entry, Cached):
        changed.update(cached=entry.share)
        return
    ran = {"pid": entry.pid, "argv": list(entry.argv)}
    if isinstance(entry, Loaded):
        changed.update(**ran)
        changed.filter(loaded_at=None).update(loaded_at=entry.at)  # a wake is no second load
        return
    changed.update(
        **ran,
        ended_at=entry.at,
        reason=entry.reason,
        exit_code=entry.exit.code,
        signal=entry.exit.signal,
        words=entry.exit.words,
    )


def _decision(entry: Decided, rows: dict[InstanceId, int]) -> DecisionRecord:
    return DecisionRecord(
        at=entry.at,
        kind=entry.kind,
        preset=entry.preset,
        instance_id=None if entry.instance is None else rows.get(entry.instance),
        reason=entry.reason,
        figures={name: _readable(figure) for name, figure in entry.figures.items()},
    )


def _readable(figure: Any) -> Any:
    """For people, and for JSON, which knows no infinity."""
    if not isinstance(figure, float):
        return figure
    return round(figure, 3) if math.isfinite(figure) else str(figure)
