"""What children of a preset have printed, as it lies in files (run_logs.py): the last lines, those
in which a text stands, and what is added. No Django is imported here."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .run_logs import RunLog, runs_in

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
    for number, line in enumerate(_lines(run, None), 1):
        if wanted in line.lower():
            kept.append(Found(number, line))
            count += 1
    return list(kept), count


def _lines(run: RunLog, until: Offsets | None) -> Iterator[bytes]:
    for file in run.files:
        end = None if until is None else until.get(file)
        try:
            with file.open("rb") as opened:
                yield from opened.read(end).splitlines(keepends=True)
        except FileNotFoundError:
            continue


class Following:
    """What is added to the runs in `folder` from now on, those that begin later included; the
    folder need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails = {run: _Tail(run.path) for run in runs_in(folder)}
        self.begin: Offsets = {run.path: tail.begin for run, tail in self._tails.items()}
        """How much of each file stood there before."""

    def added(self) -> list[Piece]:
        """Since the last time, the runs that began first first."""
        there = runs_in(self._folder)
        for run in there:
            if run not in self._tails:
                self._tails[run] = _Tail(run.path, whole=True)
        for run in self._tails.keys() - set(there):  # removed, to make room
            self._tails.pop(run).close()
        pieces = [Piece(run, self._tails[run].added()) for run in sorted(self._tails)]
        return [piece for piece in pieces if piece.lines]

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()


class _Tail:
    """One run's file. When it is full it is renamed, and the next line begins a new one."""

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        self._path = path
        self._file = self._opened()
        self._rest = b""
        at_end = self._file is not None and not whole
        self.begin = self._file.seek(0, os.SEEK_END) if at_end and self._file else 0

    def added(self) -> bytes:
        """What was written before the file was renamed comes before what stands in the new one."""
        read = self._rest + self._read()
        cut = read.rfind(b"\n") + 1
        if not cut and len(read) >= LONGEST_LINE:
            cut = len(read)
        self._rest = read[cut:]
        return read[:cut]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> bytes:
        if self._file is not None and (found := self._file.read(CHUNK)):
            return found
        if self._is_current():
            return b""
        self.close()
        self._file = self._opened()
        return b"" if self._file is None else self._file.read(CHUNK)

    def _is_current(self) -> bool:
        """Whether no other file has the name now."""
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        return self._file is not None and os.path.samestat(os.fstat(self._file.fileno()), named)

    def _opened(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except FileNotFoundError:
            return None
