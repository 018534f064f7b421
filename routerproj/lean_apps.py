"""Libraries as apps, without what they import only because that happens to be installed."""

from __future__ import annotations

from unfold.apps import DefaultAppConfig

from models_registry.lean_imports import taken_as_missing

with taken_as_missing("jinja2"):  # ninja imports Django's signals for tests, and all beside them
    import django.test.signals  # noqa: F401


class Look(DefaultAppConfig):  # type: ignore[misc]
    def ready(self) -> None:
        super().ready()
        with taken_as_missing("psycopg"):  # for fields that PostgreSQL alone has: we have none
            import unfold.overrides  # noqa: F401
