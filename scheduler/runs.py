"""Runs of a preset: what the record says of each child, and its log, while either is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

from scheduler import run_logs
from scheduler.models import InstanceRecord
from scheduler.run_logs import RunLog

MOST_RUNS = 50


@dataclass(frozen=True, slots=True)
class Run:
    """Without a row where the record is not kept as long as the log, or has not yet been written;
    without a log where nothing was printed, or it had to make room."""

    started_at: datetime
    row: InstanceRecord | None
    log: RunLog | None

    @property
    def key(self) -> str:
        """By which it is asked for."""
        return run_logs.stamp(self.started_at)

    @property
    def is_over(self) -> bool:
        return self.row is not None and self.row.ended_at is not None

    @property
    def state(self) -> str:
        """`loading` or `running`, or its reason once it has ended; empty if that is not known."""
        if self.row is None:
            return ""
        if self.row.ended_at is not None:
            return self.row.reason
        return "loading" if self.row.loaded_at is None else "running"


def runs_of(logs: Path, preset: str, most: int = MOST_RUNS) -> list[Run]:
    """The newest first."""
    files: dict[datetime, RunLog] = {}
    for log in run_logs.runs_of(logs, preset):
        files.setdefault(log.started_at, log)
    rows = InstanceRecord.objects.filter(preset=preset).order_by("-id")[:most]
    known = {row.started_at: row for row in rows}
    moments = sorted(files.keys() | known.keys(), reverse=True)[:most]
    return [Run(at, known.get(at), files.get(at)) for at in moments]


def prune_logs(logs: Path, days: int) -> int:
    """Removes those whose last line is older, and what is too much in all; of what runs none.
    Returns how many went."""
    before = timezone.now() - timedelta(days=days)
    running = InstanceRecord.objects.filter(ended_at=None).values_list("started_at", "preset")
    kept = {(at, run_logs.preset_folder(logs, preset).name) for at, preset in running}
    return run_logs.prune(logs, before=before, running=kept)
