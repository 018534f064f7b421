"""Journals become rows: those of this process, and those of processes that were killed.

A record is brought in once, however often its journal is read: what is in the database already is
left out, in the transaction that inserts the rest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    transaction,
)

from proxy.models import UsageRecord
from proxy.rollups.raising import roll_up
from proxy.usage import locked_files
from proxy.usage.journal import journals_in
from proxy.usage.record import Record, record_in
from proxy.usage.rows import began, fit, insert_contents, insert_rows

logger = logging.getLogger(__name__)

AT_ONCE = 500
"""Records in one transaction."""
NOT_THERE = (OperationalError, InterfaceError, ProgrammingError)
"""What is raised when the database, or its tables, cannot be reached at this moment. Whatever else
is raised is a record's fault, and would be again."""
REFUSED_SUFFIX = ".refused"
"""Of a journal that holds a record which the database does not take, whatever is tried."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """`failed`: what the database says."""

    records: int = 0
    failed: str = ""


def take_up(folder: Path) -> TakenUp:
    """All journals that nobody writes to. It reads files and waits for the database. One that
    another process reads at this moment is that one's. Raises OSError."""
    records, failed = 0, ""
    for path in journals_in(folder):
        try:
            records += _take(path)
        except NOT_THERE as error:
            failed = str(error)
            break
    return TakenUp(records, failed)


def _take(path: Path) -> int:
    """Bring in the records of one journal, and remove it. Raises what is NOT_THERE, and then it
    stays."""
    with _locked(path) as file:
        if file is None:
            return 0
        records = list(_records(path, _content(file)))
        refused = False
        for start in range(0, len(records), AT_ONCE):
            refused = not _insert_all(records[start : start + AT_ONCE]) or refused
        if refused:
            logger.error("A record of %s cannot be stored: it is kept beside", path)
            path.rename(path.with_suffix(REFUSED_SUFFIX))
        else:
            path.unlink()
    return len(records)


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """None when it is somebody else's, or gone."""
    file = locked_files.left(path, os.O_RDONLY)
    try:
        yield file
    finally:
        if file is not None:
            os.close(file)


def _content(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as opened:
        return opened.read()


def _records(path: Path, content: bytes) -> Iterator[Record]:
    for line in content.split(b"\n"):
        if not line:
            continue
        record = record_in(line)
        if record is None:
            logger.warning("A line of %s was not written to its end: %d bytes", path, len(line))
        else:
            yield record


def _insert_all(records: Sequence[Record]) -> bool:
    """Whether the database has them all now. Raises what is NOT_THERE."""
    try:
        _insert_with_retry(records)
    except NOT_THERE:
        raise
    except Exception:
        if len(records) == 1:
            logger.exception("The record %s is refused", records[0].record)
            return False
        return all([_insert_all([record]) for record in records])
    return True


def _insert_with_retry(records: Sequence[Record]) -> None:
    try:
        insert(records)
    except IntegrityError:
        insert(records)  # another process has brought in some of them at the same time


def insert(records: Sequence[Record]) -> None:
    """Those that are not there yet. Raises what the database says, and then none."""
    by_id = {record.record: record for record in records}
    with transaction.atomic():
        there = UsageRecord.objects.filter(record__in=list(by_id)).values_list("record", flat=True)
        for id in there:
            del by_id[id]
        new = list(by_id.values())
        if not new:
            return
        for record in new:
            fit(record)
        insert_rows(new)
        insert_contents(new)
        roll_up((began(record), record) for record in new)
