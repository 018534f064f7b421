"""SQLite as we set it up: writers wait for each other instead of failing. PostgreSQL by its URL."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.sqlite3.base import DatabaseWrapper

from routerproj.databases import database_settings


@pytest.fixture
def connection(tmp_path: Path) -> DatabaseWrapper:
    values = database_settings("", tmp_path) | {
        "TIME_ZONE": None,
        "CONN_HEALTH_CHECKS": False,
        "CONN_MAX_AGE": 0,
        "AUTOCOMMIT": True,
    }
    return DatabaseWrapper(values, "throw-away")


@pytest.mark.parametrize(
    ("pragma", "expected"), [("journal_mode", "wal"), ("synchronous", 1), ("busy_timeout", 20000)]
)
def test_a_connection_has_its_pragmas(
    connection: DatabaseWrapper, pragma: str, expected: object, django_db_blocker: object
) -> None:
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        connection.connect()
        try:
            assert connection.connection is not None
            found = connection.connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        finally:
            connection.close()

    assert found == expected


def test_transactions_begin_as_writers(connection: DatabaseWrapper) -> None:
    assert connection.get_connection_params().get("transaction_mode") is None
    assert connection.transaction_mode == "IMMEDIATE"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgres:///corral", ("", "", "", "corral")),
        ("postgresql://u:p%40w%23@db:5433/corral", ("u", "p@w#", "db", "corral")),
        ("postgres://u@/corral?host=/run/postgresql", ("u", "", "/run/postgresql", "corral")),
        ("postgres://u@%2Frun%2FPostgreSQL/corral", ("u", "", "/run/PostgreSQL", "corral")),
        ("postgres://u:p@a:5432,b:5433/corral", ("u", "p", "a,b", "corral")),
    ],
)
def test_where_postgresql_is_may_be_written_as_for_libpq(
    url: str, expected: tuple[str, ...]
) -> None:
    found = database_settings(url, Path("/var"))
    assert found["ENGINE"] == "routerproj.postgresql"  # where one transaction writes at a time

    assert tuple(found[name] for name in ("USER", "PASSWORD", "HOST", "NAME")) == expected


def test_what_stands_behind_the_url_counts_above_our_own() -> None:
    found = database_settings("postgres://h/n?sslmode=require&connect_timeout=9", Path("/var"))

    assert found["OPTIONS"]["sslmode"] == "require"
    assert found["OPTIONS"]["connect_timeout"] == 9
    assert "lock_timeout=20000" in found["OPTIONS"]["options"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://u:geheim@h/corral", "begins with neither"),
        ("corral.sqlite3", "begins with neither"),
        ("postgres", "begins with neither"),
        ("postgres://u:geheim@h", "names no database"),
        ("postgres://u:geheim@h/", "names no database"),
        ("postgres://u:geheim/x@h/corral", "%2F for /"),
        ("postgres://u:geheim@h:five/corral", "not a URL of a database"),
        ("sqlite://", "names no file"),
    ],
)
def test_what_is_no_database_is_refused_without_telling_the_password(url: str, said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said) as refused:
        database_settings(url, Path("/var"))

    assert "geheim" not in str(refused.value)


def test_a_driver_that_is_not_installed_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("routerproj.databases.find_spec", lambda name: None)

    with pytest.raises(ImproperlyConfigured, match=r"--require-hashes -r locks/postgres\.txt"):
        database_settings("postgres:///corral", Path("/var"))
