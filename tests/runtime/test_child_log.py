"""A child's log on disk: bounded, private, and no reason to fail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scheduler.core.values import InstanceId
from scheduler.run_logs import RUNS_KEPT, runs_of
from scheduler.runtime.child_log import KEPT_LINES, LONGEST_KEPT_LINE, ChildLog, RunLogs

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_full_file_is_moved_aside_once(tmp_path):
    path = tmp_path / "logs" / "a.log"
    log = ChildLog(path, file_limit=100)
    for number in range(50):
        log.add(b"%020d" % number)
    log.close()

    sizes = {file.name: file.stat().st_size for file in path.parent.iterdir()}
    assert set(sizes) <= {"a.log", "a.log.1"}
    assert sum(sizes.values()) <= 2 * 121


def test_each_run_has_a_file_of_its_own(tmp_path):
    logs = RunLogs(tmp_path)
    for number, text in enumerate((b"first", b"second")):
        log = logs.begun("a", InstanceId(number), DAY + timedelta(days=number))
        log.add(text)
        log.close()

    assert [run.path.read_bytes() for run in runs_of(tmp_path, "a")] == [b"second\n", b"first\n"]


def test_a_run_that_goes_on_keeps_its_file_however_many_begin(tmp_path):
    logs = RunLogs(tmp_path)
    running = logs.begun("a", InstanceId(0), DAY)
    running.add(b"here")
    for number in range(1, RUNS_KEPT + 5):
        log = logs.begun("a", InstanceId(number), DAY + timedelta(days=number))
        log.add(b"gone soon")
        log.close()
    running.close()

    assert runs_of(tmp_path, "a")[-1].path.read_bytes() == b"here\n"
    assert len(runs_of(tmp_path, "a")) == RUNS_KEPT + 1


def test_a_file_that_cannot_be_written_ends_nothing(tmp_path):
    (tmp_path / "logs").write_text("in the way")
    log = ChildLog(tmp_path / "logs" / "a.log")
    log.add(b"error: one")
    log.add(b"error: two")

    assert log.words() == "error: one\nerror: two"


def test_lines_that_come_as_one_piece_are_kept_and_written_as_they_stand(tmp_path):
    path = tmp_path / "a.log"
    log = ChildLog(path, file_limit=100)
    log.add(b"error: long ago")
    log.add_lines(b"chatter\n" * KEPT_LINES + b"\nerror: one\n")
    log.add_lines(b"error: two\nfailed to allocate CUDA0 buffer\n")
    log.close()

    assert log.words().splitlines() == [
        "error: one",
        "error: two",
        "failed to allocate CUDA0 buffer",
    ]
    assert log.says_out_of_memory()
    assert path.with_suffix(".log.1").read_bytes().startswith(b"error: long ago\nchatter\n")
    assert path.read_bytes() == b"error: two\nfailed to allocate CUDA0 buffer\n"


def test_pieces_of_any_size_take_bounded_memory():
    log = ChildLog(None)
    for _ in range(200):
        log.add_lines(b"x" * 99 + b"\n" * 3_000)

    assert sum(map(len, log._kept)) <= 2 * KEPT_LINES * LONGEST_KEPT_LINE


def test_only_the_last_lines_are_kept_in_memory():
    log = ChildLog(None)
    log.add(b"error: long ago")
    for _ in range(KEPT_LINES):
        log.add(b"chatter")

    assert log.words() == "chatter\nchatter\nchatter"


def test_neither_a_key_nor_what_a_terminal_obeys_is_kept(tmp_path):
    path = tmp_path / "a.log"
    log = ChildLog(path)

    log.add(b"error: \x1b[2Jck_abcdefgh_S3cretS3cretS3cret\r")
    log.add_lines(b"error: Bearer S3cretS3cret\x07\nerror: two\n")
    log.close()

    said = path.read_text()
    assert said == ("error: ?[2Jck_abcdefgh_[redacted]?\nerror: Bearer [redacted]?\nerror: two\n")
    assert "S3cret" not in log.words()
