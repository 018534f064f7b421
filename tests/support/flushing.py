"""Between tests that commit, all tables are emptied: also the audit trail's, which no installation
lets go."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.operations import BaseDatabaseOperations

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
