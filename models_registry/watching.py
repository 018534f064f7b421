"""The sources are looked at by themselves, now and then, for whoever does not press the button."""

from __future__ import annotations

import logging
import threading

from django.db import DatabaseError, close_old_connections

from models_registry.sources.reading import Reading, configured_places, read_sources
from models_registry.tasks import rescan_sources

logger = logging.getLogger(__name__)


def watch_sources(every_seconds: float, stop: threading.Event) -> None:
    """Until `stop` is set. A look costs a `stat` of each file; the registry is only asked when what
    it sees is not what it saw."""
    seen: Reading | None = None
    while not stop.wait(every_seconds):
        seen = look(seen)


def look(seen: Reading | None) -> Reading | None:
    """What there is now; `seen` when the registry could not be brought in step with it."""
    reading = read_sources(configured_places())
    if reading == seen:
        return seen
    close_old_connections()
    try:
        report = rescan_sources()
    except DatabaseError as error:
        logger.warning("the sources have changed, and the registry cannot be written: %s", error)
        return seen
    finally:
        close_old_connections()
    if report.changed or report.vanished:
        for line in report.lines():
            logger.info("rescan: %s", line)
    return reading
