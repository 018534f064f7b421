"""Where children's logs lie: a folder for each preset, and in it a file for each run, which is one
child from its start to its end. What a run was and why it ended stands in the record, under the
same start (scheduler/models.py). No Django is imported here.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

FOLDER = "runs"
RUNS_KEPT = 20
"""Of a preset, those that run not counted."""
PRESET_BYTES = 32 << 20
"""Of a preset's runs together; one that runs may come on top with what a child's log may have."""
ALL_BYTES = 1 << 30
"""Of all presets, once a night."""

_FORMAT = "%Y%m%dT%H%M%S.%fZ"
_NAME = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)-(\d+)\.log(?:\.1)?")


@dataclass(frozen=True, slots=True, order=True)
class RunLog:
    """`instance` is its number in the life of that scheduler. `path` is the file that is written
    to; what stood before it, when it was full, lies beside it."""

    started_at: datetime
    instance: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def files(self) -> list[Path]:
        """The earlier first; each may be missing."""
        return [earlier_file(self.path), self.path]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(_stat(file)[0] for file in self.files)

    @property
    def written_at(self) -> datetime:
        """When its last line came."""
        return datetime.fromtimestamp(max(_stat(file)[1] for file in self.files), UTC)

    def remove(self) -> None:
        for file in self.files:
            file.unlink(missing_ok=True)


def earlier_file(path: Path) -> Path:
    return path.with_suffix(".log.1")


def preset_folder(logs: Path, preset: str) -> Path:
    """Named as the preset, or a safe form of it that no other name shares."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", preset)[:100].lstrip(".")
    if safe != preset:
        safe = f"{safe}-{hashlib.sha256(preset.encode()).hexdigest()[:8]}"
    return logs / FOLDER / safe


def run_path(logs: Path, preset: str, started_at: datetime, instance: int) -> Path:
    return preset_folder(logs, preset) / f"{stamp(started_at)}-{instance}.log"


def stamp(started_at: datetime) -> str:
    """By which a run is named and asked for."""
    return started_at.astimezone(UTC).strftime(_FORMAT)


def runs_in(folder: Path) -> list[RunLog]:
    """The newest first; none where there is no such folder."""
    found: set[RunLog] = set()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for file in folder.iterdir():
            if (read := _NAME.fullmatch(file.name)) is None:
                continue
            with contextlib.suppress(ValueError):  # no such day
                at = datetime.strptime(read[1], _FORMAT).replace(tzinfo=UTC)
                found.add(RunLog(at, int(read[2]), folder / file.name.removesuffix(".1")))
    return sorted(found, reverse=True)


def runs_of(logs: Path, preset: str) -> list[RunLog]:
    return runs_in(preset_folder(logs, preset))


def make_room(folder: Path, running: Collection[Path]) -> None:
    """Before another run of the preset begins: the oldest go. Raises OSError."""
    ended = [run for run in runs_in(folder) if run.path not in running]
    _remove_beyond(ended[: RUNS_KEPT - 1], PRESET_BYTES)
    for run in ended[RUNS_KEPT - 1 :]:
        run.remove()


def prune(logs: Path, *, before: datetime, running: Collection[tuple[datetime, str]]) -> int:
    """Of all presets: removes runs whose last line is older, and the oldest beyond ALL_BYTES; none
    of `running`, by their start and the folder of their preset. Returns how many went."""
    folders = sorted(each for each in _entries(logs / FOLDER) if each.is_dir())
    ended = [
        run
        for folder in folders
        for run in runs_in(folder)
        if (run.started_at, folder.name) not in running
    ]
    old = [run for run in ended if run.written_at < before]
    for run in old:
        run.remove()
    kept = sorted(set(ended) - set(old), reverse=True)
    removed = len(old) + _remove_beyond(kept, ALL_BYTES)
    for folder in folders:
        if not any(_entries(folder)):
            folder.rmdir()
    return removed


def _remove_beyond(runs: Iterable[RunLog], most: int) -> int:
    """Those, the newest first, that do not fit into so many bytes."""
    removed = together = 0
    for run in runs:
        together += run.size
        if together > most:
            run.remove()
            removed += 1
    return removed


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from folder.iterdir()


def _stat(file: Path) -> tuple[int, float]:
    """Bytes, and seconds since 1970 of the last change."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return 0, 0.0
    return found.st_size, found.st_mtime
