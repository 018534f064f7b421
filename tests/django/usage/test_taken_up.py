"""Journals become rows: each record once, whoever reads it, however often, whatever it holds."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import OperationalError, connection, connections

from proxy.models import UsageHour, UsageRecord
from proxy.usage import bringing_in as bringing_in_module
from proxy.usage import taking_up
from proxy.usage.bringing_in import BringingIn, bring_in_usage
from proxy.usage.journal import Journal, size_of
from proxy.usage.record import Record, line_of
from proxy.usage.taking_up import take_up
from proxy.usage.writer import UsageWriter
from scheduler.protocol import Refused

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.each_database]


def record(name: str = "one", **fields: object) -> Record:
    return Record(record=name, request_id="req", at=1e9, **fields)  # type: ignore[arg-type]


def left(folder: Path, *records: Record, name: str = "1-1.jsonl") -> Path:
    """A journal of a process that is gone."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(b"".join(map(line_of, records)))
    return path


def names() -> list[str]:
    return list(UsageRecord.objects.order_by("id").values_list("record", flat=True))


def test_each_field_of_a_record_is_in_its_row(tmp_path):
    told = record(
        team="blue", team_id=7, key="abcdefgh", key_name="bot", user="ann", asked="gpt", attempt=1,
        final=False, preset="qwen", instance=12, path="/v1/messages", dialect="anthropic",
        stream=True, status=200, code="model_died", read=5, cached=3, answered=8, estimated=True,
        charged=True, queue_wait=0.5, load_wait=0.25, first_token=1.5, duration=2.0,
        client="curl/8", upstream=True,
    )  # fmt: skip
    left(tmp_path, told)

    assert take_up(tmp_path).records == 1
    row = UsageRecord.objects.get()
    assert row.at == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    for name in Record.__struct_fields__:
        if name not in ("at", "content", "granted", "trace"):
            assert getattr(row, name) == getattr(told, name), name


def test_a_journal_that_was_taken_up_is_gone(tmp_path):
    path = left(tmp_path, record())

    take_up(tmp_path)
    assert size_of(tmp_path) == 0
    assert not path.exists()


def test_what_is_there_already_is_left_out_and_not_summed_again(tmp_path):
    left(tmp_path, record("one", read=5, charged=True))
    take_up(tmp_path)
    left(tmp_path, record("one", read=5, charged=True), record("two", read=1, charged=True))
    take_up(tmp_path)

    assert names() == ["one", "two"]
    assert {(hour.requests, hour.read) for hour in UsageHour.objects.all()} == {(2, 6)}
    assert not list(tmp_path.iterdir())


def test_a_record_that_is_twice_in_a_journal_is_one_row(tmp_path):
    left(tmp_path, record("one"), record("one"), record("two"))
    take_up(tmp_path)

    assert names() == ["one", "two"]


def test_a_torn_last_line_takes_nothing_with_it(tmp_path, caplog):
    path = left(tmp_path, record("one"), record("two"))
    path.write_bytes(path.read_bytes()[:-20])
    take_up(tmp_path)

    assert names() == ["one"]
    assert "not written to its end" in caplog.text
    assert not path.exists()


def test_a_journal_in_use_stays(tmp_path):
    path = left(tmp_path, record())
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        taken = take_up(tmp_path)

    assert taken.records == 0
    assert size_of(tmp_path) == path.stat().st_size
    assert names() == []


def test_many_more_than_fit_into_one_transaction_are_all_taken(tmp_path):
    left(tmp_path, *(record(str(number)) for number in range(2 * taking_up.AT_ONCE + 1)))

    assert take_up(tmp_path).records == 2 * taking_up.AT_ONCE + 1
    assert UsageRecord.objects.count() == 2 * taking_up.AT_ONCE + 1


def test_what_two_read_at_once_is_there_once(tmp_path):
    records = [record(str(number)) for number in range(600)]
    for folder in ("a", "b", "c", "d"):
        left(tmp_path / folder, *records)

    def both(folder: str) -> None:
        try:
            take_up(tmp_path / folder)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(both, ("a", "b", "c", "d")))
    for folder in ("a", "b", "c", "d"):
        take_up(tmp_path / folder)

    assert sorted(map(int, names())) == list(range(600))


@pytest.mark.parametrize(
    "odd",
    [
        {"asked": "x" * 10_000},
        {"client": "nul \0 in it"},
        {"path": "/\0"},
        {"team": "ünïcode 😀"},
        {"read": (1 << 53) - 1},
    ],
)
def test_whatever_a_client_sends_is_taken(tmp_path, odd):
    left(tmp_path, record(**odd))

    assert take_up(tmp_path).failed == ""
    assert names() == ["one"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [{"status": -70_000}, {"duration": 1e300}])
def test_a_record_that_no_database_takes_is_kept_beside_and_holds_up_no_other(
    tmp_path, caplog, bad
):
    path = left(tmp_path, record("one"), record("bad", **bad), record("two"))
    left(tmp_path, record("three"), name="2-1.jsonl")
    take_up(tmp_path)

    assert names() == ["one", "two", "three"]
    assert path.with_suffix(".refused").exists()
    assert "is refused" in caplog.text


def test_a_database_that_fails_leaves_the_journal(tmp_path, monkeypatch):
    path = left(tmp_path, record())

    def fails(records: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(taking_up, "insert", fails)
    taken = take_up(tmp_path)

    assert taken.failed == "database is locked"
    assert path.stat().st_size > 0


@pytest.fixture
def bringing_in(tmp_path, monkeypatch):
    """The thread of the jobs process; calling it ends it, after all has been brought in."""
    monkeypatch.setattr(bringing_in_module, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(bringing_in_module, "usage_folder", lambda: tmp_path)
    stop = threading.Event()
    thread = threading.Thread(target=bring_in_usage, args=(stop,))
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()

    yield end
    end()


async def eventually(is_so) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(in_thread, is_so):  # noqa: ASYNC110 - a database says it
            await asyncio.sleep(0.02)


def is_taken(writer: UsageWriter) -> bool:
    try:
        writer.refuse_if_full()
    except Refused:
        return False
    return True


def in_thread(call):
    try:
        return call()
    except OperationalError:  # tables in memory cannot be read while another thread writes
        return None
    finally:
        connection.close()


async def test_what_is_written_and_what_others_left_is_brought_in(tmp_path, bringing_in):
    left(tmp_path, record("left"))
    writer = UsageWriter(Journal(tmp_path, 1 << 30), every_seconds=0.01)
    writer.start()
    writer.write(record("one"))
    await eventually(lambda: set(names()) == {"left", "one"})
    writer.write(record("two"))
    await writer.close()

    await asyncio.to_thread(bringing_in)
    assert set(await asyncio.to_thread(in_thread, names)) == {"left", "one", "two"}
    assert not list(tmp_path.iterdir())


async def test_few_files_wait_for_a_database_that_is_away(tmp_path, monkeypatch, bringing_in):
    fails, insert = [True], taking_up.insert

    def may_fail(records):
        if fails:
            raise OperationalError("gone")
        insert(records)

    monkeypatch.setattr(taking_up, "insert", may_fail)
    writer = UsageWriter(Journal(tmp_path, limit=500), every_seconds=0.01)
    writer.start()
    for number in range(20):
        writer.write(record(str(number)))
        await asyncio.sleep(0.01)

    assert len(list(tmp_path.iterdir())) == 2  # not one for each round
    with pytest.raises(Refused, match="the journal is full"):
        writer.refuse_if_full()

    fails.clear()
    await eventually(lambda: len(names()) == 20)
    async with asyncio.timeout(30):
        while list(tmp_path.iterdir()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await eventually(lambda: is_taken(writer))
    await writer.close()


def test_what_fails_is_logged_when_it_begins_and_when_it_ends(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="proxy.usage.bringing_in")
    insert = taking_up.insert
    left(tmp_path, record())

    def fails(records: object) -> None:
        raise OperationalError("database is locked")

    bringing = BringingIn(tmp_path)
    monkeypatch.setattr(taking_up, "insert", fails)
    bringing.round()
    bringing.round()
    monkeypatch.setattr(taking_up, "insert", insert)
    bringing.round()
    bringing.round()

    assert [each.message for each in caplog.records] == [
        "Usage stays in the journal, the database fails: database is locked",
        "Usage is brought in again: 1 records",
    ]
