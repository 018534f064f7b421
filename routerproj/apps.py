from __future__ import annotations

from django.apps import AppConfig


class RouterprojConfig(AppConfig):
    name = "routerproj"
    verbose_name = "Corral"

    def ready(self) -> None:
        from routerproj import checks, database_checks  # noqa: F401  (registers them)
