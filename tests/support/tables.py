"""Empty tables, migrated once: running all migrations takes five seconds of processor time."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from django.db.backends.sqlite3.creation import DatabaseCreation

from tests.support.made_once import ROOT, of_these_sources

MANAGE = ROOT / "manage.py"
DATABASE = "corral.sqlite3"
_filled: dict[str, sqlite3.Connection] = {}
"""A database in memory lives as long as somebody is connected."""


def tables() -> Path:
    """An SQLite file as `manage.py migrate` leaves it: to be copied."""
    return of_these_sources("tables", _migrate)


def begin_with_tables() -> None:
    """Tests that use the database find them in it; what a test run migrates is what is missing."""
    original = DatabaseCreation._create_test_db

    def _create_test_db(self: Any, *args: Any, **kwargs: Any) -> str:
        name: str = original(self, *args, **kwargs)
        if self.is_in_memory_db(name) and name not in _filled:
            _filled[name] = sqlite3.connect(name, uri=True)
            copy_tables(_filled[name])
        return name

    DatabaseCreation._create_test_db = _create_test_db  # type: ignore[method-assign]


def copy_tables(database: sqlite3.Connection) -> None:
    """Whatever it holds goes."""
    with closing(sqlite3.connect(tables())) as source:
        source.backup(database)


def remove_tables(database: sqlite3.Connection) -> None:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.backup(database)


def clean_environment() -> dict[str, str]:
    """This process's environment without what would configure a gateway, and without the models
    that whoever runs the tests has downloaded."""
    ours = ("CORRAL_", "LLAMA_", "OLLAMA_", "DJANGO_", "DATABASE_URL", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"CORRAL_HF_CACHE": "0"}


def _migrate(path: Path) -> None:
    var = path.with_name(f"{path.name}.var")
    shutil.rmtree(var, ignore_errors=True)
    subprocess.run(
        [sys.executable, str(MANAGE), "migrate", "--noinput", "-v0", "--skip-checks"],
        env=clean_environment() | {"CORRAL_VAR": str(var)},
        check=True,
    )
    with closing(sqlite3.connect(var / DATABASE)) as database:
        database.execute("PRAGMA journal_mode=DELETE")  # no copy in memory can have a log
    (var / DATABASE).replace(path)
    shutil.rmtree(var)
