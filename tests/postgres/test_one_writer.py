"""Transactions on PostgreSQL follow one another; nothing else waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connections, transaction

from routerproj.postgresql.base import DatabaseWrapper

pytestmark = pytest.mark.each_database
Connect = Callable[..., DatabaseWrapper]


@contextmanager
def known_as(alias: str, connection: DatabaseWrapper) -> Iterator[None]:
    """What `atomic(using=alias)` uses in this thread."""
    connections[alias] = connection
    try:
        yield
    finally:
        del connections[alias]


@pytest.fixture
def pair(connected: Connect) -> Iterator[tuple[DatabaseWrapper, DatabaseWrapper]]:
    first, second = connected(), connected(options="-c lock_timeout=100")
    first.alias, second.alias = "first", "second"
    with known_as("first", first), known_as("second", second):
        with first.cursor() as cursor:
            cursor.execute("CREATE TABLE noted (number int)")
        yield first, second


def noted(connection: DatabaseWrapper) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM noted ORDER BY number")
        return [number for (number,) in cursor.fetchall()]


def note(connection: DatabaseWrapper, number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO noted VALUES (%s)", [number])


def test_a_transaction_sees_all_that_the_one_before_it_has_written(
    connected: Connect, pair: tuple[DatabaseWrapper, DatabaseWrapper]
) -> None:
    """As a rule is checked: what is there is looked at, then something is written."""
    first, third = pair[0], connected()
    third.alias = "third"
    seen: list[list[int]] = []

    def write() -> None:
        with known_as("third", third), transaction.atomic(using="third"):
            seen.append(noted(third))
            note(third, 2)

    with transaction.atomic(using="first"):
        assert noted(first) == []
        thread = threading.Thread(target=write)
        thread.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        with pair[1].cursor() as cursor:
            for _ in range(10_000):
                cursor.execute(waiting)
                if cursor.fetchone() == (1,):
                    break
            else:
                pytest.fail("nobody waits")
        note(first, 1)
    thread.join(20)

    assert seen == [[1]]
    assert noted(first) == [1, 2]


def test_who_waits_too_long_gets_an_error_and_may_ask_again(
    pair: tuple[DatabaseWrapper, DatabaseWrapper],
) -> None:
    first, second = pair
    with transaction.atomic(using="first"):
        with (
            pytest.raises(OperationalError, match="lock timeout"),
            transaction.atomic(using="second"),
        ):
            note(second, 2)
        note(first, 1)

    with transaction.atomic(using="second"):
        note(second, 3)

    assert noted(first) == [1, 3]
    assert second.get_autocommit()


def test_who_reads_and_who_writes_one_statement_waits_for_nobody(
    pair: tuple[DatabaseWrapper, DatabaseWrapper],
) -> None:
    first, second = pair
    with transaction.atomic(using="first"):
        note(first, 1)
        assert noted(second) == []
        note(second, 2)

    assert noted(second) == [1, 2]


def test_a_transaction_inside_another_waits_for_nobody(
    pair: tuple[DatabaseWrapper, DatabaseWrapper],
) -> None:
    first, _ = pair
    with transaction.atomic(using="first"):
        note(first, 1)
        with transaction.atomic(using="first"):
            note(first, 2)
            transaction.set_rollback(True, using="first")
        note(first, 3)

    assert noted(first) == [1, 3]


def test_a_server_that_goes_away_in_a_transaction_leaves_no_lock_behind(
    pair: tuple[DatabaseWrapper, DatabaseWrapper],
) -> None:
    first, second = pair
    with pytest.raises(OperationalError), transaction.atomic(using="first"):
        cut_off(first, by=second)

    with transaction.atomic(using="second"):
        note(second, 2)
    with transaction.atomic(using="first"):
        note(first, 3)

    assert noted(first) == [2, 3]


def cut_off(connection: DatabaseWrapper, *, by: DatabaseWrapper) -> None:
    """By the server, as when it is stopped; then `connection` is used."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    with by.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    note(connection, 1)
