"""What is added to the logs of runs, over the renaming of a full file, and what stood before."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from scheduler.log_following import Following, found_lines, last_lines
from scheduler.run_logs import RunLog, earlier_file, run_path, runs_in


def run(logs: Path, day: int = 1) -> RunLog:
    at = datetime(2026, 1, day, tzinfo=UTC)
    path = run_path(logs, "m", at, 7)
    path.parent.mkdir(parents=True, exist_ok=True)
    return RunLog(at, 7, path)


def append(run: RunLog, text: bytes) -> None:
    with run.path.open("ab") as file:
        file.write(text)


def told(following: Following) -> list[tuple[int, bytes]]:
    return [(piece.run.started_at.day, piece.lines) for piece in following.added()]


def test_a_run_that_begins_later_is_followed_from_its_first_line(tmp_path: Path) -> None:
    one, two = run(tmp_path, 1), run(tmp_path, 2)
    following = Following(one.path.parent)
    assert told(following) == []

    append(one, b"one\n")
    append(two, b"two\n")

    assert told(following) == [(1, b"one\n"), (2, b"two\n")]
    assert told(following) == []


def test_what_is_followed_begins_where_what_stood_there_ends(tmp_path: Path) -> None:
    one = run(tmp_path)
    append(one, b"one\ntwo\n")
    following = Following(one.path.parent)
    append(one, b"three\n")

    assert last_lines([one], 9, following.begin) == [(one, [b"one\n", b"two\n"])]
    assert told(following) == [(1, b"three\n")]


def test_nothing_is_lost_when_the_file_is_full_and_a_new_one_begins(tmp_path: Path) -> None:
    one = run(tmp_path)
    append(one, b"one\n")
    following = Following(one.path.parent)
    append(one, b"two\n")
    one.path.replace(earlier_file(one.path))
    append(one, b"three\n")

    assert told(following) + told(following) == [(1, b"two\n"), (1, b"three\n")]
    assert runs_in(one.path.parent) == [one]


def test_a_line_is_told_once_it_is_whole(tmp_path: Path) -> None:
    one = run(tmp_path)
    following = Following(one.path.parent)
    append(one, b"on")
    assert told(following) == []

    append(one, b"e\n")

    assert told(following) == [(1, b"one\n")]


def test_a_run_that_had_to_make_room_is_followed_no_more(tmp_path: Path) -> None:
    one, two = run(tmp_path, 1), run(tmp_path, 2)
    append(one, b"one\n")
    following = Following(one.path.parent)
    one.remove()
    append(two, b"two\n")

    assert told(following) == [(2, b"two\n")]


def test_the_last_lines_are_those_of_the_newest_runs(tmp_path: Path) -> None:
    one, two = run(tmp_path, 1), run(tmp_path, 2)
    append(one, b"1\n2\n3\n")
    append(two, b"4\n5\n")

    found = last_lines(runs_in(one.path.parent), 3)

    assert found == [(one, [b"3\n"]), (two, [b"4\n", b"5\n"])]


def test_a_text_is_found_whatever_its_case_with_the_number_of_its_line(tmp_path: Path) -> None:
    one = run(tmp_path)
    append(one, b"error: a\n")
    one.path.replace(earlier_file(one.path))
    append(one, b"fine\nERROR: b\nan Error\n")

    found, count = found_lines(one, "error", most=2)

    assert [(each.number, each.line) for each in found] == [(3, b"ERROR: b\n"), (4, b"an Error\n")]
    assert count == 3
