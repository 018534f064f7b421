from __future__ import annotations

from django.apps import AppConfig


class ProxyConfig(AppConfig):
    name = "proxy"
    verbose_name = "Access"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from models_registry import access
        from proxy import audited
        from proxy.access import identify  # it needs the models, which are loaded only now
        from proxy.account.second_factor import note_login

        access.register(identify)
        user_logged_in.connect(note_login, dispatch_uid="second factor")
        audited.connect()
