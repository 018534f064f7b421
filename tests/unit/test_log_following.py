"""What is added to a child's log, over its renaming, and what stood there before."""

from __future__ import annotations

from pathlib import Path

from scheduler.log_following import Following, earlier_file, last_lines


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_log_that_is_not_there_yet_is_followed_from_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "m.log"
    following = Following(path)
    assert following.added() == b""

    append(path, b"one\n")

    assert following.added() == b"one\n"
    assert following.added() == b""
    following.close()


def test_what_is_followed_begins_where_what_stood_there_ends(tmp_path: Path) -> None:
    path = tmp_path / "m.log"
    append(path, b"one\ntwo\n")
    following = Following(path)
    append(path, b"three\n")

    assert last_lines(path, 9, until=following.begin) == [b"one\n", b"two\n"]
    assert following.added() == b"three\n"
    following.close()


def test_nothing_is_lost_when_the_file_is_full_and_a_new_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "m.log"
    append(path, b"one\n")
    following = Following(path)
    append(path, b"two\n")
    path.replace(earlier_file(path))
    append(path, b"three\n")

    assert [following.added(), following.added(), following.added()] == [b"two\n", b"three\n", b""]
    following.close()
