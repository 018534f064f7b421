"""A thread of the jobs process brings what the web processes have journalled into the database:
about once a second while there is something to bring."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from django.db import close_old_connections, connections

from proxy.conf import usage_folder
from proxy.usage.taking_up import take_up

logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
NICE = 10
"""Where the processor is short, answers come first: what waits here is in a file, and is late."""


def bring_in_usage(stop: threading.Event) -> None:
    """Until `stop` is set, and once more then."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # of this thread alone
    bringing = BringingIn(usage_folder())
    try:
        while not stop.wait(EVERY_SECONDS):
            bringing.round()
        bringing.round()
    finally:
        connections.close_all()


class BringingIn:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fails = ""

    def round(self) -> None:
        """Logs what fails when it begins to fail, and when it works again."""
        close_old_connections()
        try:
            taken = take_up(self._folder)
        except Exception:  # one round that fails must not be the last
            logger.exception("Usage cannot be brought in: the journal keeps it")
            return
        if taken.failed and not self._fails:
            logger.error("Usage stays in the journal, the database fails: %s", taken.failed)
        elif self._fails and not taken.failed:
            logger.info("Usage is brought in again: %d records", taken.records)
        self._fails = taken.failed
