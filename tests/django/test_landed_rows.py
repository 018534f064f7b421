"""A database full of rows, as the last landed state leaves it, is brought up to date: nothing of it
is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.support.filled_tables import contents, differences, fill

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.each_database]
LANDED = [
    ("models_registry", "0014_upstream_url_help"),
    ("scheduler", "0005_instances_by_preset"),
    ("proxy", "0005_own_and_wildcard_aliases"),
]
OURS = [app for app, _ in LANDED]
ROWS = 4
GIVEN: dict[str, Any] = {}
"""Of columns that a constraint or a later migration has its own idea of."""
GONE = {"proxy.ApiKey.scope", "proxy.HistoricalApiKey.scope"}
"""Columns that today's tables have no more; what became of them is looked at as well."""
SCOPES = {"inference": ["infer", "read", "load"], "admin": ["admin"]}


def migrated_to(targets: list[tuple[str, str]]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return MigrationExecutor(connection).loader.project_state(targets).apps


def models_of(apps: Any) -> list[Any]:
    return [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.app_label in OURS
    ]


@pytest.fixture
def landed() -> Iterator[Any]:
    yield migrated_to(LANDED)
    migrated_to(MigrationExecutor(connection).loader.graph.leaf_nodes())


def test_every_row_and_column_is_there_after_the_upgrade(landed: Any) -> None:
    fill(models_of(landed), ROWS, GIVEN)
    before = contents(models_of(landed))
    assert {len(rows) for rows in before.values()} <= {ROWS, ROWS + 1}  # the default team

    apps = migrated_to(MigrationExecutor(connection).loader.graph.leaf_nodes())

    after = contents(models_of(apps))
    assert differences(before, after, GONE) == []
    for table in ("proxy.ApiKey", "proxy.HistoricalApiKey"):
        assert {key: row["scopes"] for key, row in after[table].items()} == {
            key: SCOPES[row["scope"]] for key, row in before[table].items()
        }
