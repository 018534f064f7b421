"""One server for these tests. Each takes a database of its own on it; who breaks it, one for
itself (`tests.support.postgres.cluster`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from routerproj.databases import database_settings
from routerproj.postgresql.base import DatabaseWrapper
from tests.support.postgres import Cluster, cluster

_numbers = itertools.count()
FILLED_IN_BY_DJANGO = {
    "TIME_ZONE": None,
    "CONN_HEALTH_CHECKS": False,
    "CONN_MAX_AGE": 0,
    "AUTOCOMMIT": True,
    "ATOMIC_REQUESTS": False,
    "TEST": {},
}


@pytest.fixture(scope="session")
def server() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def database(server: Cluster) -> str:
    """The name of one that is empty."""
    name = f"own{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}")
    return name


@pytest.fixture
def connected(
    server: Cluster, database: str, django_db_blocker: pytest.FixtureRequest
) -> Iterator[Callable[..., DatabaseWrapper]]:
    """Makes connections to `database` as the settings make them, which may be used in other
    threads; `**options` are libpq's."""
    with ExitStack() as closing:
        closing.enter_context(django_db_blocker.unblock())  # type: ignore[attr-defined]

        def connect(url: str = "", **options: object) -> DatabaseWrapper:
            values = database_settings(url or server.url(database), Path())
            made = DatabaseWrapper(FILLED_IN_BY_DJANGO | values, "throw-away")
            made.settings_dict["OPTIONS"] |= options
            made.inc_thread_sharing()
            closing.callback(made.close)
            return made

        yield connect
