"""Budgets outlive the scheduler, whatever ends it; and nobody uses what cannot be written down."""

from __future__ import annotations

import errno
import os
from collections import defaultdict

import pytest

from scheduler.core.limit_counter import KEPT_PERIODS
from scheduler.core.limit_values import Charged
from scheduler.runtime import budget_journal
from scheduler.runtime.budget_journal import BudgetJournal


def remembered(path) -> dict[tuple[str, str], int]:
    """What a new life of the scheduler is told."""
    found: dict[tuple[str, str], int] = defaultdict(int)

    def remember(counter: str, period: str, tokens: int) -> None:
        found[counter, period] += tokens

    journal = BudgetJournal(path)
    journal.open(remember)
    journal.close()
    return dict(found)


def opened(path) -> BudgetJournal:
    journal = BudgetJournal(path)
    journal.open(lambda counter, period, tokens: None)
    return journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.jsonl"


def test_what_was_charged_is_remembered_however_often_it_starts(path):
    journal = opened(path)
    journal.write(Charged("2026-11-30", 100, ("a", "b")))
    journal.write(Charged("2026-11-30", 20, ("a",)))
    journal.write(Charged("2026-12-01", 7, ("a",)))
    expected = {
        ("a", "2026-11-30"): 120,
        ("a", "2026-11"): 120,
        ("b", "2026-11-30"): 100,
        ("b", "2026-11"): 100,
        ("a", "2026-12-01"): 7,
        ("a", "2026-12"): 7,
    }

    for _ in range(3):
        assert remembered(path) == expected
    assert path.stat().st_mode & 0o777 == 0o600


def test_each_charge_is_written_before_anything_else_happens(path):
    journal = opened(path)
    journal.write(Charged("2026-11-30", 100, ("a",)))

    assert remembered(path) == {("a", "2026-11-30"): 100, ("a", "2026-11"): 100}


def test_a_last_line_that_a_kill_has_cut_is_left_out_and_the_next_begins_anew(path):
    opened(path).write(Charged("2026-11-30", 100, ("a",)))
    with path.open("ab") as file:
        file.write(b'{"period":"2026-11-30","tok')
    journal = opened(path)
    journal.write(Charged("2026-11-30", 1, ("a",)))

    assert remembered(path)["a", "2026-11-30"] == 101


def test_a_line_that_makes_no_sense_hides_no_other(path, caplog):
    opened(path).write(Charged("2026-11-30", 100, ("a",)))
    path.write_bytes(b"\x00\x00\x00\n" + path.read_bytes() + b'{"period": 3}\n')

    assert remembered(path) == {("a", "2026-11-30"): 100, ("a", "2026-11"): 100}
    assert "line 1 is left out" in caplog.text


def test_while_the_disk_is_full_it_is_not_ready_and_nothing_is_lost(path, monkeypatch):
    journal = opened(path)
    journal.write(Charged("2026-11-30", 100, ("a",)))
    written = os.write

    def full(file: int, line: bytes) -> int:
        written(file, line[:5])
        return 5

    monkeypatch.setattr(budget_journal.os, "write", full)
    journal.write(Charged("2026-11-30", 20, ("a",)))
    journal.write(Charged("2026-11-30", 3, ("a",)))
    assert not journal.ready()
    assert b'"tokens":20' not in path.read_bytes()

    def refused(file: int, line: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(budget_journal.os, "write", refused)
    assert not journal.ready()

    monkeypatch.setattr(budget_journal.os, "write", written)
    assert journal.ready()
    assert remembered(path)["a", "2026-11-30"] == 123


def test_a_start_on_a_full_disk_keeps_what_there_is(path, monkeypatch, caplog):
    opened(path).write(Charged("2026-11-30", 100, ("a",)))
    before = path.read_bytes()

    def refused(file: int, line: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(budget_journal.os, "write", refused)

    assert remembered(path)["a", "2026-11-30"] == 100
    assert path.read_bytes() == before
    assert "not summed up" in caplog.text


def test_a_file_that_cannot_be_read_yet_is_read_as_soon_as_it_can(path, tmp_path):
    opened(path).write(Charged("2026-11-30", 100, ("a",)))
    away = tmp_path / "away"
    path.rename(away)
    path.mkdir()
    found: list[tuple[str, str, int]] = []
    journal = BudgetJournal(path)
    journal.open(lambda *told: found.append(told))
    assert not journal.ready()
    assert not found

    path.rmdir()
    away.rename(path)

    assert journal.ready()
    assert ("a", "2026-11-30", 100) in found


def test_it_is_summed_up_when_it_has_grown_and_keeps_the_last_days(path, monkeypatch):
    monkeypatch.setattr(budget_journal, "SUM_UP_AT", 2000)
    journal = opened(path)
    for day in range(1, 29):
        for _ in range(10):
            journal.write(Charged(f"2026-11-{day:02}", 10, ("a",)))

    assert path.stat().st_size < 3000
    found = remembered(path)
    assert found["a", "2026-11"] == 2800
    days = sorted(period for _, period in found if len(period) == 10)
    assert len(days) < 15
    assert days[-KEPT_PERIODS:] == [f"2026-11-{day:02}" for day in range(29 - KEPT_PERIODS, 29)]
