"""Are the database's tables those of this code? Answered without building Django's graph of
migrations, which costs each process that starts a third of a second."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.util import find_spec

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder


def missing_migrations() -> int:
    """How many have not been run. Raises DatabaseError."""
    applied = set(MigrationRecorder(connection).applied_migrations())
    if _on_disk() <= applied:
        return 0
    executor = MigrationExecutor(connection)  # knows of those that replace others
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _on_disk() -> set[tuple[str, str]]:
    """(app, name) of every migration file."""
    found: set[tuple[str, str]] = set()
    for config in apps.get_app_configs():
        package = f"{config.name}.migrations"
        if find_spec(package) is None:
            continue
        for module in pkgutil.iter_modules(import_module(package).__path__):
            if not module.ispkg and module.name[0] not in "_~":
                found.add((config.label, module.name))
    return found
