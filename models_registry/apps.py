from __future__ import annotations

from django.apps import AppConfig


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    verbose_name = "Models"

    def ready(self) -> None:
        from models_registry import history, indexing, revision, ungrouping, upstream_keys

        revision.connect()
        history.connect()
        indexing.connect()
        ungrouping.connect()
        upstream_keys.connect()
