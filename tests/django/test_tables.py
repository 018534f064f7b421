"""Whether the tables are those of this code."""

from __future__ import annotations

import pytest
from django.db.migrations.recorder import MigrationRecorder

from models_registry.tables import missing_migrations

pytestmark = pytest.mark.django_db


def test_a_database_that_has_run_them_all_misses_none(django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(2):
        assert missing_migrations() == 0


def test_one_that_was_not_run_is_missing() -> None:
    last = MigrationRecorder.Migration.objects.filter(app="models_registry").latest("pk")
    last.delete()

    assert missing_migrations() == 1
