from __future__ import annotations

from django.apps import AppConfig


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    verbose_name = "Models"

    def ready(self) -> None:
        from models_registry import history, indexing, revision, ungrouping, upstream_keys
        from models_registry.audit import logins, tables

        revision.connect()
        history.connect()
        indexing.connect()
        ungrouping.connect()
        upstream_keys.connect()
        tables.connect()
        logins.connect()
