"""A database that cannot be Corral's is told at the start, with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core.checks import CheckMessage
from django.db import connections
from django.db.backends.base.base import RAN_DB_VERSION_CHECK
from django.db.backends.postgresql.features import DatabaseFeatures

from routerproj.database_checks import check_database
from routerproj.postgresql.base import DatabaseWrapper
from routerproj.serve import first_run
from tests.support.postgres import Cluster

pytestmark = pytest.mark.each_database
Connect = Callable[..., DatabaseWrapper]
Found = Callable[[str], list[CheckMessage]]


@pytest.fixture
def found(connected: Connect, monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    """What is found wrong with the database at a URL."""
    before = connections["default"]

    def look(url: str) -> list[CheckMessage]:
        connections["default"] = connected(url)
        return check_database(None, databases=["default"])

    yield look
    connections["default"] = before


def test_an_empty_database_of_ones_own_is_fit(server: Cluster, database: str, found: Found) -> None:
    assert found(server.url(database)) == []


def test_a_database_that_does_not_exist_is_told_with_its_name(
    server: Cluster, found: Found
) -> None:
    (message,) = found(server.url("missing"))

    assert message.id == "corral.E003"
    assert 'database "missing" does not exist' in message.msg


def test_a_server_that_does_not_run_is_told_without_the_password(found: Found) -> None:
    (message,) = found("postgres://corral:geheim@/corral?host=/nowhere")

    assert message.id == "corral.E003"
    assert "/nowhere" in message.msg
    assert "geheim" not in f"{message.msg} {message.hint}"


def test_a_server_that_is_too_old_is_told_with_the_version_it_takes(
    server: Cluster, database: str, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DatabaseFeatures, "minimum_database_version", (99,))
    RAN_DB_VERSION_CHECK.discard("throw-away")  # Django looks once

    (message,) = found(server.url(database))

    assert message.id == "corral.E004"
    assert "PostgreSQL 99 or later is required" in message.msg


def test_an_encoding_that_cannot_keep_every_name_is_an_error(server: Cluster, found: Found) -> None:
    server.sql(
        "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C'"
    )

    (message,) = found(server.url("latin"))

    assert message.id == "corral.E005"
    assert "LATIN1" in message.msg


def test_a_standby_is_an_error(server: Cluster, database: str, found: Found) -> None:
    server.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")

    (message,) = found(server.url(database))

    assert message.id == "corral.E006"


def test_a_user_who_may_make_no_tables_is_told_how_to_be_let(
    server: Cluster, database: str, found: Found
) -> None:
    """As `CREATE DATABASE` and `CREATE USER` alone leave it, from PostgreSQL 15 on."""
    server.sql("CREATE ROLE guest LOGIN")
    url = server.url(database).replace("//corral@", "//guest@")

    (message,) = found(url)
    server.sql(str(message.hint))

    assert message.id == "corral.E007"
    assert found(url) == []


def test_the_start_ends_with_what_is_wrong_and_what_to_do(found: Found) -> None:
    found("postgres://corral@/corral?host=/nowhere")

    with pytest.raises(first_run.UnusableDatabase, match=r"(?s)cannot be used.*DATABASE_URL"):
        first_run.prepare_database()
