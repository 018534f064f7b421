from __future__ import annotations

import asyncio
import threading

import pytest
from django.db import OperationalError, ProgrammingError

from proxy import queries
from proxy.queries import DatabaseThread, Remembered, Shared
from scheduler.protocol import Refused


class Query:
    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()

    def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        self.may_end.wait()
        return number


async def until_begun(query: Query, times: int) -> None:
    async with asyncio.timeout(30):
        while query.begun < times:  # noqa: ASYNC110 - it is begun in another thread
            await asyncio.sleep(0.001)


async def test_who_comes_while_a_query_runs_gets_the_next_one_and_all_of_them_the_same():
    thread, query = DatabaseThread("test"), Query()
    shared = Shared(thread, query, 0.0)
    first = [asyncio.create_task(shared.ask()) for _ in range(3)]
    await until_begun(query, 1)
    later = [asyncio.create_task(shared.ask()) for _ in range(3)]
    await asyncio.sleep(0)
    query.may_end.set()

    assert await asyncio.gather(*first) == [1] * 3
    assert await asyncio.gather(*later) == [2] * 3
    await thread.close()


async def test_a_flood_begins_no_more_queries_than_the_spacing_allows():
    thread, query = DatabaseThread("test"), Query()
    query.may_end.set()
    shared = Shared(thread, query, 3600.0)
    assert await shared.ask() == 1
    waiting = [asyncio.create_task(shared.ask()) for _ in range(100)]
    await asyncio.sleep(0.05)

    assert query.begun == 1
    await shared.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {result.code for result in results} == {"shutting_down"}
    await thread.close()


async def test_one_who_gives_up_takes_nothing_from_the_others():
    thread, query = DatabaseThread("test"), Query()
    shared = Shared(thread, query, 0.0)
    leaving, staying = (asyncio.create_task(shared.ask()) for _ in range(2))
    await until_begun(query, 1)
    leaving.cancel()
    query.may_end.set()

    assert await staying == 1
    await thread.close()


async def test_an_error_is_everybodys_and_is_forgotten():
    fails = [True]

    def query() -> str:
        if fails.pop():
            fails.append(False)
            raise ValueError("broken")
        return "mended"

    thread = DatabaseThread("test")
    shared = Shared(thread, query, 0.0)
    results = await asyncio.gather(shared.ask(), shared.ask(), return_exceptions=True)

    assert [str(result) for result in results] == ["broken"] * 2
    assert await shared.ask() == "mended"
    await thread.close()
    await thread.close()


class Answers:
    """A query that answers, or fails, as told."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)

    def __call__(self) -> object:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_what_was_known_counts_while_the_database_fails():
    thread = DatabaseThread("test")
    query = Answers("old", OperationalError("gone"), "new")
    remembered = Remembered(Shared(thread, query, 0.0))

    assert [await remembered.ask() for _ in range(3)] == ["old", "old", "new"]
    await thread.close()


async def test_while_nothing_is_known_a_database_that_fails_is_told_as_what_passes():
    thread = DatabaseThread("test")
    remembered = Remembered(Shared(thread, Answers(OperationalError("gone"), "new"), 0.0))

    with pytest.raises(Refused) as refused:
        await remembered.ask()

    assert refused.value.code == "database_unavailable"
    assert await remembered.ask() == "new"
    await thread.close()


async def test_a_query_that_is_wrong_is_nobodys_passing_trouble():
    thread = DatabaseThread("test")
    remembered = Remembered(Shared(thread, Answers("old", ProgrammingError("no table")), 0.0))
    await remembered.ask()

    with pytest.raises(ProgrammingError):
        await remembered.ask()
    await thread.close()


async def test_a_database_that_hangs_holds_up_one_who_asks_and_then_hardly_anybody(monkeypatch):
    thread, query = DatabaseThread("test"), Query()
    remembered = Remembered(Shared(thread, query, 0.0))
    query.may_end.set()
    assert await remembered.ask() == 1
    query.may_end.clear()
    monkeypatch.setattr(queries, "LATE_SECONDS", 0.01)
    assert await remembered.ask() == 1
    monkeypatch.setattr(queries, "LATE_SECONDS", 3600.0)
    assert await remembered.ask() == 1

    query.may_end.set()
    monkeypatch.setattr(queries, "LATE_AGAIN_SECONDS", 3600.0)
    assert await remembered.ask() > 1
    await thread.close()
