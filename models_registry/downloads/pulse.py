"""What a download that runs says of itself, twice a second, and what it hears from people."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from django.db import Error as DatabaseError
from django.db import connections
from django.utils import timezone

from models_registry.downloads.planned import Plan, as_json
from models_registry.downloads.wire import Line
from models_registry.models import Download
from models_registry.naming import LONGEST_NAME

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
SPEED_OVER_SECONDS = 5.0
JOIN_SECONDS = 30.0


@dataclass(slots=True)
class Progress:
    """Written by the thread that fetches, read by the one that tells."""

    plan: Plan | None = None
    done: dict[int, int] = field(default_factory=dict)
    trouble: str = ""
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def bytes_done(self) -> int:
        return sum(self.done.values())

    def columns(self) -> dict[str, Any]:
        """The row's, as they are now."""
        told: dict[str, Any] = {"bytes_done": self.bytes_done, "error": self.trouble}
        if self.plan is None:
            return told
        files = as_json(self.plan)
        for number, done in list(self.done.items()):
            files[number]["done"] = done
        sizes = [file.size for file in self.plan.files]
        known = [size for size in sizes if size is not None]
        return told | {
            "files": files,
            "name": self.plan.name[:LONGEST_NAME],
            "commit": self.plan.commit,
            "bytes_total": sum(known) if len(known) == len(sizes) else None,
        }

    def speed(self) -> float | None:
        """Bytes a second over the last seconds; None before there is anything to say."""
        now, done = time.monotonic(), self.bytes_done
        self._seen.append((now, done))
        while now - self._seen[0][0] > SPEED_OVER_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return (done - before) / (now - since) if now > since else None


class Pulse:
    """Inside the block the row is kept up to date, and a wish other than to run ends the line."""

    def __init__(self, download: int, progress: Progress, line: Line) -> None:
        self._download = download
        self._progress = progress
        self._line = line
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"download {download}", daemon=True)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stop.wait(BEAT_SECONDS):
                try:
                    self._beat()
                except DatabaseError as error:
                    logger.warning("download %d cannot be noted: %s", self._download, error)
                    connections.close_all()
        finally:
            connections.close_all()

    def _beat(self) -> None:
        rows = Download.objects.filter(pk=self._download, state=Download.State.RUNNING)
        told = {**self._progress.columns(), "bytes_per_second": self._progress.speed()}
        rows.update(seen_at=timezone.now(), **told)
        if rows.values_list("wanted", flat=True).first() != Download.State.RUNNING:
            self._line.end()
