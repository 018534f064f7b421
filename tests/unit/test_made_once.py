"""What is made once for all lanes is whole, made by one of them, and new when the sources are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import made_once


def test_of_many_who_want_it_at_once_one_makes_it(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(draft: Path) -> None:
        made.append(draft)
        draft.write_text("whole")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: made_once.made_once(tmp_path / "a", make), range(8)))

    assert {path.read_text() for path in found} == {"whole"}
    assert len(made) == 1


def test_what_broke_while_it_was_made_is_not_there_and_is_made_anew(tmp_path: Path) -> None:
    def fail(draft: Path) -> None:
        draft.mkdir()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        made_once.made_once(tmp_path / "a", fail)
    assert not (tmp_path / "a").exists()

    assert made_once.made_once(tmp_path / "a", Path.mkdir).is_dir()


def test_of_other_sources_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_once, "CACHE", tmp_path)
    (tmp_path / "state-of-others").mkdir()
    (tmp_path / "stately").touch()

    mine = made_once.of_these_sources("state", Path.mkdir)

    assert {path.name for path in tmp_path.iterdir()} == {mine.name, f"{mine.name}.lock", "stately"}
