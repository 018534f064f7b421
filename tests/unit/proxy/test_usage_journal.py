"""The journal of usage: one write a line, in a file that others leave alone while it is in use."""

from __future__ import annotations

import fcntl
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.usage.journal import LARGEST_FILE, Journal, journals_in
from proxy.usage.record import Record, record_in
from scheduler.protocol import Refused

PLENTY = 1 << 30


def record(name: str = "one", **fields: object) -> Record:
    return Record(record=name, request_id="req", at=1.0, **fields)  # type: ignore[arg-type]


def lines(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().split()]


def names(folder: Path) -> list[str]:
    found = [record_in(line) for line in lines(folder)]
    return [record.record for record in found if record is not None]


def is_free(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "usage", PLENTY)
    yield made
    made.let_go()


def test_a_record_is_in_the_file_when_it_is_written(journal):
    journal.write(record(read=3, code="model_died"))

    [line] = lines(journal.folder)
    assert record_in(line) == record(read=3, code="model_died")


def test_nobody_else_reads_or_takes_a_journal_in_use(journal):
    journal.write(record())

    [path] = journal.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    assert not is_free(path)
    journal.let_go()
    assert is_free(path)


def test_what_was_let_go_is_written_to_no_more(journal):
    journal.write(record("one"))
    journal.let_go()
    journal.write(record("two"))

    assert names(journal.folder) == ["one", "two"]
    assert len(list(journal.folder.iterdir())) == 2


def test_a_large_journal_is_followed_by_another(journal):
    for _ in range(2):
        journal.write(record("large", client="x" * LARGEST_FILE))
    journal.write(record("small"))

    assert len(list(journal.folder.iterdir())) == 3


def test_two_processes_write_two_journals(tmp_path):
    one, other = Journal(tmp_path, PLENTY), Journal(tmp_path, PLENTY)
    for number in range(100):
        (one if number % 2 else other).write(record(str(number)))

    assert sorted(map(int, names(tmp_path))) == list(range(100))
    assert len(list(tmp_path.iterdir())) == 2
    one.let_go()
    other.let_go()


def test_a_full_journal_takes_nothing_new_until_there_is_room(tmp_path):
    journal = Journal(tmp_path, limit=100)
    journal.refuse_if_full()
    journal.write(record(client="x" * 100))

    with pytest.raises(Refused, match="CORRAL_USAGE_JOURNAL") as refused:
        journal.refuse_if_full()
    assert refused.value.code == "usage_unavailable"

    journal.let_go()
    journal.look()
    assert journal.waits_for_others
    with pytest.raises(Refused):
        journal.refuse_if_full()

    for path in journals_in(tmp_path):
        path.unlink()
    journal.look()
    assert not journal.waits_for_others
    journal.refuse_if_full()


@pytest.fixture
def small_disk() -> Iterator[int]:
    """No file may be longer than so many bytes: as on a full disk, writes end in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield 1000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_a_full_disk_does_not_take_is_held_and_written_later(journal, small_disk):
    """In its order, and without half a line in the way of the next."""
    journal.write(record("one"))
    journal.write(record("two", client="x" * small_disk))
    journal.write(record("three"))

    assert journal.held == 2
    with pytest.raises(Refused, match="the disk does not take it"):
        journal.refuse_if_full()
    journal.write_held()
    assert journal.held == 2  # the disk is as full as before

    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.write_held()
    journal.refuse_if_full()
    assert names(journal.folder) == ["one", "two", "three"]


def test_a_folder_that_cannot_be_made_loses_nothing(tmp_path):
    (tmp_path / "usage").write_text("in the way")
    journal = Journal(tmp_path / "usage", PLENTY)
    journal.write(record())
    assert journal.held == 1

    (tmp_path / "usage").unlink()
    journal.write_held()
    assert names(journal.folder) == ["one"]
    journal.let_go()


@pytest.mark.parametrize(
    "line", [b"", b'{"record":"one","requ', b"\0\0\0", b"[]", b"{}", b"[" * 10_000]
)
def test_a_line_that_was_not_written_to_its_end_is_no_record(line):
    assert record_in(line) is None
