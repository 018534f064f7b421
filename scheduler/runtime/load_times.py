"""How long presets took to load, as the record tells: what the first waits of a new scheduler are
estimated from. What loads from then on the core learns by itself."""

from __future__ import annotations

import asyncio
import logging
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from django.db import DatabaseError, close_old_connections, connections
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from scheduler.models import InstanceRecord

logger = logging.getLogger(__name__)

LOADS = 5
"""A preset's time is the median of its last so many: a cold disk, or a busy moment, is one."""

Tell = Callable[[Mapping[str, float]], None]


def recorded_load_seconds() -> dict[str, float]:
    """By preset. One pass over the rows, whatever the number of presets: half a million of them
    took a few seconds, and an index did not shorten that."""
    close_old_connections()
    try:
        nth = Window(RowNumber(), partition_by=F("preset"), order_by=F("id").desc())
        last = (
            InstanceRecord.objects.filter(loaded_at__isnull=False)
            .annotate(nth=nth)
            .filter(nth__lte=LOADS)
            .order_by()
            .values_list("preset", "started_at", "loaded_at")
        )
        loads = defaultdict[str, list[float]](list)
        for preset, started, loaded in last:
            if loaded is not None and loaded >= started:  # else the clock was set back meanwhile
                loads[preset].append((loaded - started).total_seconds())
    finally:
        connections.close_all()
    return {preset: statistics.median(seconds) for preset, seconds in loads.items()}


async def tell_load_seconds(
    tell: Tell, read: Callable[[], Mapping[str, float]] = recorded_load_seconds
) -> None:
    """Once. A database that fails is no reason to wait: it is a matter of estimates."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="load-times")
    try:
        loop = asyncio.get_running_loop()
        tell(await loop.run_in_executor(thread, read))
    except DatabaseError as failure:
        logger.warning("how long loads took cannot be read, waits are guessed: %s", failure)
    finally:
        thread.shutdown(wait=False)
