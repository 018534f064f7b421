"""Between tests that commit, all tables are emptied: also the audit trail's, which no installation
lets go.

In memory it is done once, with all that Django then makes anew (permissions, kinds of content), and
what came of it is kept: it takes a twentieth of a second, and copying it back a hundredth of that.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import TransactionTestCase

from models_registry.audit import triggers


def flush_the_trail_too() -> None:
    original = BaseDatabaseOperations.execute_sql_flush

    def execute_sql_flush(self: Any, sql_list: list[str]) -> None:
        there = triggers.TABLE in self.connection.introspection.table_names()
        if there:
            triggers.remove(self.connection)
        original(self, sql_list)
        if there:
            triggers.install(self.connection)

    BaseDatabaseOperations.execute_sql_flush = execute_sql_flush  # type: ignore[method-assign]


def flush_once() -> None:
    original = TransactionTestCase._fixture_teardown
    kept = sqlite3.connect(":memory:")
    is_kept = False

    def _fixture_teardown(self: Any) -> None:
        nonlocal is_kept
        is_here = connection.vendor == "sqlite" and connection.is_in_memory_db()
        if not is_here or self._databases_names(include_mirrors=False) != [DEFAULT_DB_ALIAS]:
            original(self)
            return
        if not is_kept:
            original(self)
        connection.ensure_connection()
        if is_kept:
            _bring_back(kept, connection.connection)
        else:
            connection.connection.backup(kept)
            is_kept = True

    TransactionTestCase._fixture_teardown = _fixture_teardown


def _bring_back(kept: sqlite3.Connection, database: sqlite3.Connection) -> None:
    """But for the numbers of rows to come, which go on as after a flush: what a process remembers
    of a row must not meet another one of its number."""
    counted = "SELECT name, seq FROM sqlite_sequence"
    with closing(database.execute(counted)) as rows:
        numbers = rows.fetchall()
    kept.backup(database)
    database.execute("DELETE FROM sqlite_sequence")
    database.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", numbers)
    database.commit()
