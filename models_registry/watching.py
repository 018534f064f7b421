"""The sources and the presets file are looked at by themselves, for whoever does not press the
button."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from django.db import DatabaseError, close_old_connections

from models_registry.audit.actors import job as audited_job
from models_registry.sources.discovery import Report
from models_registry.sources.reading import Reading, configured_places, read_sources
from models_registry.tasks import rescan_sources

logger = logging.getLogger(__name__)

PRESETS_LOOK_SECONDS = 2.0
"""A look at the presets file is one `stat`."""

Stamp = tuple[int, int, int]


class PresetsFileWatch:
    """Whether the file is another than the one that was read last. One that has just changed may
    still be being written: it counts once a second look finds it as the first one did."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._read: Stamp | None = None
        self._seen: Stamp | None = None

    def has_changed(self) -> bool:
        before, self._seen = self._seen, self._stamp()
        return self._seen is not None and self._seen == before and self._seen != self._read

    def was_read(self) -> None:
        self._read = self._seen

    def _stamp(self) -> Stamp | None:
        """None while there is no such file: that changes nothing."""
        try:
            found = self.path.stat() if self.path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None


def watch_sources(every_seconds: float, stop: threading.Event) -> None:
    """Until `stop` is set. A look costs a `stat` of each file; the registry is only asked when what
    it sees is not what it saw. Of 0 seconds, only the presets file is looked at."""
    seen: Reading | None = None
    file = PresetsFileWatch(configured_places().presets_file)
    ticks = [every_seconds] if every_seconds else []
    tick = min([*ticks, PRESETS_LOOK_SECONDS] if file.path else ticks)
    waited = 0.0
    while not stop.wait(tick):
        waited += tick
        if file.has_changed():
            seen = look(None)
            if seen is not None:
                file.was_read()
        elif every_seconds and waited >= every_seconds:
            seen, waited = look(seen), 0.0


def look(seen: Reading | None) -> Reading | None:
    """What there is now; `seen` when the registry could not be brought in step with it."""
    reading = read_sources(configured_places())
    if reading == seen:
        return seen
    close_old_connections()
    try:
        with audited_job("watching the sources"):
            report = rescan_sources()
    except DatabaseError as error:
        logger.warning("the sources have changed, and the registry cannot be written: %s", error)
        return seen
    finally:
        close_old_connections()
    if report.changed or report.faults:
        _tell(report)
    return reading


_told: set[str] = set()


def _tell(report: Report) -> None:
    """What still stands was told when it came."""
    lines = report.lines()
    for line in lines:
        if line == lines[0] or line not in _told:
            log = logger.warning if line in report.faults else logger.info
            log("rescan: %s", line)
    _told.clear()
    _told.update(lines)
