"""What children of a preset have printed, as it lies in files (run_logs.py): the last lines, those
in which a text stands, and what is added. No Django is imported here."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .run_logs import RunLog, earlier_file, runs_in

CHUNK = 1 << 16
LONGEST_LINE = 1 << 16
"""What is longer is told in pieces."""

Offsets = dict[Path, int]
"""Up to which byte of a file something is told."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines of one run, with their newlines; of a line that is not yet complete nothing."""

    run: RunLog
    lines: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """`number` counts the lines that are kept of the run, from 1."""

    number: int
    line: bytes


def last_lines(
    runs: Sequence[RunLog], count: int, until: Offsets | None = None
) -> list[tuple[RunLog, list[bytes]]]:
    """Of all `runs` (the newest first) together, the oldest of them first; with their newlines.
    `until`: of each file only up to that byte."""
    told: list[tuple[RunLog, list[bytes]]] = []
    for run in runs:
        if count <= 0:
            break
        kept = deque(_lines(run, until), maxlen=count)
        count -= len(kept)
        told.insert(0, (run, list(kept)))
    return told


def found_lines(run: RunLog, text: str, most: int) -> tuple[list[Found], int]:
    """The last `most` lines in which `text` stands, upper and lower case alike, and how many there
    are in all."""
    wanted = text.encode().lower()
    kept: deque[Found] = deque(maxlen=most)
    count = 0
    number = 0
    for content in _contents(run, None):
        if wanted not in content.lower():
            number += content.count(b"\n")
            continue
        for line in content.splitlines(keepends=True):
            number += 1
            if wanted in line.lower():
                kept.append(Found(number, line))
                count += 1
    return list(kept), count


def _lines(run: RunLog, until: Offsets | None) -> Iterator[bytes]:
    for content in _contents(run, until):
        yield from content.splitlines(keepends=True)


def _contents(run: RunLog, until: Offsets | None) -> Iterator[bytes]:
    for file in run.files:
        end = None if until is None else until.get(file)
        try:
            with file.open("rb") as opened:
                yield opened.read(end)
        except FileNotFoundError:
            continue


class Following:
    """What is added to the runs in `folder` from now on, those that begin later included; the
    folder need not be there yet. No file stays open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails = {run: _Tail(run, at_end=True) for run in runs_in(folder)}
        self.begin: Offsets = {run.path: tail.at for run, tail in self._tails.items()}
        """How much of each file stood there before."""

    def added(self) -> list[Piece]:
        """Since the last time, the runs that began first first."""
        there = runs_in(self._folder)
        for run in there:
            if run not in self._tails:
                self._tails[run] = _Tail(run)
        for run in self._tails.keys() - set(there):  # removed, to make room
            del self._tails[run]
        pieces = [Piece(run, self._tails[run].added()) for run in sorted(self._tails)]
        return [piece for piece in pieces if piece.lines]


class _Tail:
    """One run's file. When it is full it is renamed, and the next line begins a new one."""

    def __init__(self, run: RunLog, *, at_end: bool = False) -> None:
        self._run = run
        self._rest = b""
        found = _stat(run.path) if at_end else None
        self._file = found.st_ino if found is not None else 0
        self.at = found.st_size if found is not None else 0

    def added(self) -> bytes:
        """What was written before the file was renamed comes before what stands in the new one."""
        read = self._rest + self._read()
        cut = read.rfind(b"\n") + 1
        if not cut and len(read) >= LONGEST_LINE:
            cut = len(read)
        self._rest = read[cut:]
        return read[:cut]

    def _read(self) -> bytes:
        found = _stat(self._run.path)
        if self._file and (found is None or found.st_ino != self._file):
            earlier = earlier_file(self._run.path)
            before = _stat(earlier)
            if before is not None and before.st_ino == self._file and before.st_size > self.at:
                return self._from(earlier)
        if found is None:
            return b""
        if found.st_ino != self._file:
            self._file, self.at = found.st_ino, 0
        return self._from(self._run.path) if found.st_size > self.at else b""

    def _from(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(self.at)
                read = file.read(CHUNK)
        except FileNotFoundError:  # renamed or removed in this moment: the next look tells
            return b""
        self.at += len(read)
        return read


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
