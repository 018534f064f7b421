"""All rows of an SQLite file into the database of DATABASE_URL, as they are: with their keys and
times, without a word to those who listen to changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import DatabaseError, connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model

from models_registry.models import AuditRecord
from proxy.models import ApiKey, UsageRecord
from routerproj.databases import database_settings

SOURCE = "copied"
AT_ONCE = 500
"""Rows in one INSERT."""
SIGNS_OF_USE = (User, ApiKey, UsageRecord, AuditRecord)
"""What a database has in it that somebody has worked with."""

Tell = Callable[[str, int], None]
"""A table's name, and how many rows it had."""


class NotCopied(Exception):
    """Why nothing was."""


def copy_rows(file: Path, tell: Tell) -> None:
    """From `file`, in one transaction: all of it, or nothing. The tables are made first. Raises
    NotCopied."""
    if connection.vendor != "postgresql":
        raise NotCopied("DATABASE_URL names no PostgreSQL: that is where the rows are to go")
    if not file.is_file():
        raise NotCopied(f"there is no file {file}")
    call_command("migrate", interactive=False, verbosity=0)
    if any(model._default_manager.exists() for model in SIGNS_OF_USE):
        raise NotCopied("there is something in the database already: make an empty one (createdb)")
    with _source(file):
        _check_tables()
        models = apps.get_models(include_auto_created=True)
        with transaction.atomic():
            _empty(models)  # of what migrations have put there: the file has it with its own keys
            for model in models:
                tell(model._meta.db_table, _copy(model))
            _go_on_counting(models)


@contextmanager
def _source(file: Path) -> Iterator[None]:
    connections.settings[SOURCE] = {
        **connections.settings["default"],
        **database_settings(f"sqlite:///{file.resolve()}", file.parent),
    }
    try:
        yield
    finally:
        connections[SOURCE].close()
        del connections[SOURCE], connections.settings[SOURCE]


def _check_tables() -> None:
    """Both sides have the same columns."""
    try:
        executor = MigrationExecutor(connections[SOURCE])
        wanting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        raise NotCopied(f"the file is no database of Corral's: {error}") from error
    if wanting:
        raise NotCopied(
            "the file is of an older version: bring it up to date first, with `manage.py migrate` "
            "and no DATABASE_URL"
        )


def _empty(models: list[type[Model]]) -> None:
    """But for the audit trail, which lets nobody empty it, and has been looked into."""
    tables = [model._meta.db_table for model in models if model is not AuditRecord]
    names = ", ".join(map(connection.ops.quote_name, tables))
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {names}")


def _copy(model: type[Model]) -> int:
    """Foreign keys are checked at the end of the transaction. Raises NotCopied."""
    fields = model._meta.concrete_fields
    into: Any = model._base_manager.using("default")
    count, rows = 0, []
    for row in model._base_manager.using(SOURCE).order_by("pk").iterator(chunk_size=AT_ONCE):
        rows.append(row)
        if len(rows) == AT_ONCE:
            count += _insert(model, into, fields, rows)
            rows = []
    return count + (_insert(model, into, fields, rows) if rows else 0)


def _insert(model: type[Model], into: Any, fields: Any, rows: list[Any]) -> int:
    try:
        # bulk_create would set the times of now (auto_now_add)
        into._insert(rows, fields=fields, using="default", raw=True)
    except (DatabaseError, ValueError) as error:
        raise NotCopied(f"a row of {model._meta.db_table} is not taken: {error}") from error
    return len(rows)


def _go_on_counting(models: list[type[Model]]) -> None:
    """New rows get numbers beyond those that were copied."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)
