"""When keys were last used: exact to a minute, and no request waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from functools import partial

from django.db import Error as DatabaseError
from django.db.models import Q
from django.utils import timezone

from proxy.models import ApiKey
from proxy.queries import CLOSE_SECONDS, DatabaseThread

logger = logging.getLogger(__name__)

TOUCH_SECONDS = 60.0
TOUCHED_AT_ONCE = 500
LOCK_WAIT_MILLISECONDS = 1000


class LastUses:
    """Writes when keys were last used, exact to a minute: a figure for people, for which no request
    waits. What cannot be written is dropped."""

    def __init__(self) -> None:
        self._writer = DatabaseThread("key-uses", lock_wait_milliseconds=LOCK_WAIT_MILLISECONDS)
        self._noted: dict[str, float] = {}
        self._unwritten: set[str] = set()
        self._writing: asyncio.Task[None] | None = None

    def note(self, public_id: str) -> None:
        now = time.monotonic()
        if now - self._noted.get(public_id, -TOUCH_SECONDS) < TOUCH_SECONDS:
            return
        self._noted[public_id] = now
        self._unwritten.add(public_id)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="last uses of keys")

    async def close(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=CLOSE_SECONDS)
            self._writing.cancel()
        await self._writer.close()

    async def _write(self) -> None:
        while self._unwritten:
            some = list(self._unwritten)[:TOUCHED_AT_ONCE]
            self._unwritten.difference_update(some)
            try:
                await self._writer.run(partial(_set_last_use, some))
            except DatabaseError as error:
                logger.warning("The last use of %d keys is not written: %s", len(some), error)


def note_use(key: ApiKey) -> None:
    """Its last use, exact to a minute."""
    due = timezone.now() - timedelta(seconds=TOUCH_SECONDS)
    if key.last_used_at is None or key.last_used_at < due:
        _set_last_use([key.public_id])


def _set_last_use(public_ids: list[str]) -> None:
    """Several processes may want to: whoever is first in a minute writes."""
    now = timezone.now()
    due = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(seconds=TOUCH_SECONDS))
    ApiKey.objects.filter(due, public_id__in=public_ids).update(last_used_at=now)
