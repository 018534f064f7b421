"""Keys that are older than sets of scopes can do what they could."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from .test_history_migration import migrated_to

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.each_database]
BEFORE = [("proxy", "0007_usage_sums")]
AFTER = [("proxy", "0008_members_and_scopes")]


@pytest.fixture(autouse=True)
def today_again() -> Iterator[None]:
    yield
    migrated_to(MigrationExecutor(connection).loader.graph.leaf_nodes())


def test_an_old_keys_one_scope_becomes_the_set_of_what_it_could_do() -> None:
    apps = migrated_to(BEFORE)
    team, _ = apps.get_model("proxy", "Team").objects.get_or_create(name="default")
    for name, scope in (("app", "inference"), ("robot", "admin")):
        for model in ("ApiKey", "HistoricalApiKey"):
            told = {} if model == "ApiKey" else {"id": 1, "history_date": team.created_at}
            row = {"team": team, "name": name, "scope": scope, "public_id": name, **told}
            created = {} if model == "ApiKey" else {"created_at": team.created_at}
            apps.get_model("proxy", model).objects.create(**row, **created)

    apps = migrated_to(AFTER)

    for model in ("ApiKey", "HistoricalApiKey"):
        rows = apps.get_model("proxy", model).objects.values_list("name", "scopes", "line")
        assert sorted(rows) == [
            ("app", ["infer", "read", "load"], "app"),
            ("robot", ["admin"], "robot"),
        ]


def test_going_back_leaves_each_key_the_scope_that_is_no_more_than_it_had() -> None:
    apps = migrated_to(AFTER)
    team, _ = apps.get_model("proxy", "Team").objects.get_or_create(name="default")
    for name, scopes in (("app", ["infer"]), ("robot", ["admin"]), ("odd", ["infer", "admin"])):
        apps.get_model("proxy", "ApiKey").objects.create(
            team=team, name=name, scopes=scopes, public_id=name
        )

    apps = migrated_to(BEFORE)

    rows = apps.get_model("proxy", "ApiKey").objects.values_list("name", "scope")
    assert dict(rows) == {"app": "inference", "robot": "admin", "odd": "inference"}
