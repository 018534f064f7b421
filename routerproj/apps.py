from __future__ import annotations

from django.apps import AppConfig


class RouterprojConfig(AppConfig):
    name = "routerproj"
    verbose_name = "Corral"

    def ready(self) -> None:
        from django.conf import settings
        from django.db.models.signals import pre_delete

        from routerproj import checks, database_checks  # noqa: F401  (registers them)
        from routerproj.sign_on_rows import let_go

        if not settings.PAGELESS:
            from routerproj.model_words import translate_models

            translate_models()
        if settings.CORRAL_OIDC is None or settings.PAGELESS:
            pre_delete.connect(let_go, sender="auth.User", dispatch_uid="rows of single sign-on")
