"""The downloads' jobs. What they do is in work.py; here they get their queue."""

from __future__ import annotations

import logging

from django.db import transaction

from models_registry.downloads.work import Turns, unattended
from models_registry.jobs import QUEUE_ERRORS, crontab, downloads, task, with_fresh_connections

logger = logging.getLogger(__name__)

_turns = Turns()

fetch = task(downloads, _turns.work, name="download")


def enqueue(download: int) -> None:
    """Once the transaction commits. A queue that cannot be written costs a minute: `take_up` finds
    the row."""
    transaction.on_commit(lambda: _put(download))


def _put(download: int) -> None:
    try:
        fetch(download)
    except QUEUE_ERRORS as error:
        logger.warning("download %d is not on the queue yet: %s", download, error)


@downloads.on_startup()  # type: ignore[untyped-decorator]
@with_fresh_connections
def take_up() -> None:
    """What a killed process had begun, and what waits, goes on; a job that another one has already
    ends at once."""
    for download in unattended():
        _put(download)


@downloads.periodic_task(crontab(minute="*"), name="take_up_downloads")  # type: ignore[untyped-decorator]
@with_fresh_connections
def look_after() -> None:
    """Every minute: rows whose job died with its thread, or was never put on the queue."""
    for download in unattended():
        _put(download)
