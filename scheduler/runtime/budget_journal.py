"""What has been charged to budgets, kept in a file: they outlive the scheduler, however it ends.

Each charge is one line, appended in one write as the answer ends; at the start, and when the file
has grown, the lines are summed up. A last line that a kill has cut is left out. While a charge
cannot be written (the disk is full), `ready` is false, and nobody with a budget is let in.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from scheduler.core.limit_counter import KEPT_PERIODS
from scheduler.core.limit_values import Charged, month_of

logger = logging.getLogger(__name__)

NAME = "budgets.jsonl"
SUM_UP_AT = 16 << 20
"""Bytes."""

Remember = Callable[[str, str, int], None]
"""Takes a counter, a day or a month, and the tokens charged in it."""


class _Line(msgspec.Struct, frozen=True):
    """Tokens of a day (2026-11-30), which count in its month too, of these counters; or, with
    `alone`, of a day or month and nothing else."""

    period: str
    tokens: int
    counters: list[str]
    alone: bool = False


_decode = msgspec.json.Decoder(_Line).decode


class BudgetJournal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self._unwritten: list[bytes] = []
        self._totals: dict[tuple[str, str], int] = {}
        self._remember: Remember = lambda counter, period, tokens: None

    def open(self, remember: Remember) -> None:
        """`remember` is told what was charged before: now, or as soon as the file can be read."""
        self._remember = remember
        self.ready()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def ready(self) -> bool:
        """Whether all that was charged is written; it tries to, where it could not before."""
        if self._file is not None and not self._unwritten:
            return True
        try:
            if self._file is None:
                self._begin()
            while self._unwritten:
                self._append(self._unwritten[0])
                del self._unwritten[0]
        except OSError as failure:
            logger.error("budgets cannot be kept in %s: %s", self._path, failure)
            return False
        return True

    def write(self, charged: Charged) -> None:
        line = _Line(charged.day, charged.tokens, list(charged.counters))
        self._add(line)
        self._unwritten.append(msgspec.json.encode(line) + b"\n")
        if self.ready() and self._size > SUM_UP_AT:
            self._sum_up()

    def _begin(self) -> None:
        """Raises OSError."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._read(file)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        for (counter, period), tokens in self._totals.items():
            self._remember(counter, period, tokens)
        self._sum_up()

    def _read(self, file: int) -> None:
        """Nobody has been charged before: whoever has a budget waits for this."""
        with open(os.dup(file), "rb") as lines:  # noqa: PTH123 - a descriptor
            lines.seek(0)
            whole, found = 0, []
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # a kill has cut it
                whole += len(line)
                found.append(line)
        if os.fstat(file).st_size > whole:
            os.ftruncate(file, whole)
        self._size = whole
        for read in self._understood(found):
            self._add(read)

    def _understood(self, lines: list[bytes]) -> Iterator[_Line]:
        for number, line in enumerate(lines, 1):
            try:
                yield _decode(line)
            except msgspec.DecodeError as failure:
                logger.error("%s, line %d is left out: %s", self._path, number, failure)

    def _add(self, line: _Line) -> None:
        periods = [line.period] if line.alone else [line.period, month_of(line.period)]
        for counter in line.counters:
            for period in periods:
                key = counter, period
                self._totals[key] = self._totals.get(key, 0) + line.tokens

    def _append(self, line: bytes) -> None:
        """All of it or nothing. Raises OSError."""
        assert self._file is not None
        if os.write(self._file, line) < len(line):
            os.ftruncate(self._file, self._size)
            raise OSError("the disk is full")
        self._size += len(line)

    def _sum_up(self) -> None:
        """The old file stays as it is where the new one cannot be written."""
        self._totals = dict(_newest(self._totals))
        draft = self._path.with_suffix(".new")
        try:
            lines = [
                msgspec.json.encode(_Line(period, tokens, [counter], alone=True)) + b"\n"
                for (counter, period), tokens in self._totals.items()
            ]
            file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            try:
                whole = b"".join(lines)
                if os.write(file, whole) < len(whole):
                    raise OSError("the disk is full")
                os.fsync(file)
                draft.replace(self._path)
            except BaseException:
                os.close(file)
                raise
        except OSError as failure:
            logger.warning("the budgets in %s are not summed up: %s", self._path, failure)
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            return
        self.close()
        self._file, self._size = file, len(whole)


def _newest(totals: dict[tuple[str, str], int]) -> Iterator[tuple[tuple[str, str], int]]:
    """Of each counter the last few days and months."""
    periods: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for counter, period in totals:
        periods[counter, len(period)].append(period)
    for (counter, _), found in periods.items():
        for period in sorted(found)[-KEPT_PERIODS:]:
            yield (counter, period), totals[counter, period]
