"""SQLite as we set it up: writers wait for each other instead of failing."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.db.backends.sqlite3.base import DatabaseWrapper

pytestmark = pytest.mark.skipif(
    settings.DATABASES["default"]["ENGINE"] != "django.db.backends.sqlite3",
    reason="another database was asked for",
)


@pytest.fixture
def connection(tmp_path: Path) -> DatabaseWrapper:
    values = settings.DATABASES["default"] | {
        "NAME": tmp_path / "db.sqlite3",
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
