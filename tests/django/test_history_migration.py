"""An installation that is older than the history of changes keeps what it has, and can go back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.support.tables import copy_tables, remove_tables

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = [("models_registry", "0001_initial"), ("proxy", "0001_initial")]
AFTER = [("models_registry", "0002_history"), ("proxy", "0002_history")]


def migrated_to(targets: list[tuple[str, str]]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return MigrationExecutor(connection).loader.project_state(targets).apps


@pytest.fixture
def old_apps() -> Iterator[Any]:
    connection.ensure_connection()
    remove_tables(connection.connection)
    yield migrated_to(BEFORE)
    copy_tables(connection.connection)


def test_what_was_there_begins_its_history_with_the_upgrade(old_apps: Any) -> None:
    model_file = old_apps.get_model("models_registry", "ModelFile").objects.create(path="/a.gguf")
    preset = old_apps.get_model("models_registry", "Preset").objects.create(
        name="first", model_file=model_file, ctx_size=4096
    )
    old_apps.get_model("models_registry", "Alias").objects.create(name="other", preset=preset)
    team = old_apps.get_model("proxy", "Team").objects.create(name="builders")

    apps = migrated_to(AFTER)

    record = apps.get_model("models_registry", "HistoricalPreset").objects.get()
    assert (record.id, record.name, record.ctx_size, record.version) == (
        preset.pk,
        "first",
        4096,
        0,
    )
    assert (record.history_type, record.history_user) == ("+", None)
    assert apps.get_model("models_registry", "HistoricalModelFile").objects.get().path == "/a.gguf"
    assert apps.get_model("models_registry", "HistoricalAlias").objects.get().name == "other"
    teams = apps.get_model("proxy", "HistoricalTeam").objects
    assert teams.filter(id=team.pk, name="builders").exists()
