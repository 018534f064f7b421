"""What is under way is noted in files that are anybody's when their process is gone."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.usage.open_records import Opened, OpenRecords
from proxy.usage.record import Record

KILLED = """
import os, sys
from pathlib import Path
from proxy.usage.open_records import Opened, OpenRecords
from proxy.usage.record import Record
record = OpenRecords(Path(sys.argv[1])).open(Opened(Record(record="a", request_id="r", at=1.0)))
record.tell(Opened(Record(record="a", request_id="r", at=1.0, read=7)))
os._exit(9)
"""


def opened(name: str = "one", **fields: object) -> Opened:
    return Opened(Record(record=name, request_id="r", at=1.0, **fields))  # type: ignore[arg-type]


@pytest.fixture
def records(tmp_path: Path) -> OpenRecords:
    return OpenRecords(tmp_path / "open")


def test_nobody_takes_what_is_a_living_processs_and_it_goes_when_it_is_recorded(records, tmp_path):
    record = records.open(opened())
    [path] = (tmp_path / "open").iterdir()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert records.left() == []
    record.close()
    assert not path.exists()


def test_what_a_killed_process_told_last_is_one_others_and_of_one_of_them(records, tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "open")])
    assert done.returncode == 9

    [left] = records.left()
    assert left.opened == opened("a", read=7)
    assert records.left() == []
    left.let_go()
    [again] = records.left()
    again.recorded()
    assert list((tmp_path / "open").iterdir()) == []


def test_a_shorter_word_leaves_nothing_of_a_longer_one(records, tmp_path):
    record = records.open(opened(client="x" * 90))
    record.tell(opened(client="y"))
    [path] = (tmp_path / "open").iterdir()

    (tmp_path / "open" / "left.json").write_bytes(path.read_bytes())
    [left] = records.left()
    assert left.opened == opened(client="y")
    left.recorded()
    record.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b'{"record": 1}'])
def test_what_cannot_be_read_is_of_nothing(records, tmp_path, content):
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "bad.json").write_bytes(content)

    [left] = records.left()
    assert left.opened is None
    left.recorded()
    assert records.left() == []


def test_a_disk_that_does_not_take_it_stops_nobody(tmp_path):
    (tmp_path / "open").write_bytes(b"")

    assert OpenRecords(tmp_path / "open").open(opened()) is None
