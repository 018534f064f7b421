from __future__ import annotations

from django.apps import AppConfig


class ProxyConfig(AppConfig):
    name = "proxy"
    verbose_name = "Access"

    def ready(self) -> None:
        from models_registry import access
        from proxy.access import identify  # it needs the models, which are loaded only now

        access.register(identify)
