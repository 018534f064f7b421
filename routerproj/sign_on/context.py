"""What the log-in pages show of it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from routerproj.sign_on import conf
from routerproj.sign_on.views import target


def sign_on(request: HttpRequest) -> dict[str, Any]:
    return {
        "sign_on_name": conf.sign_on().name,
        "sign_on_next": target(request) or "",
        "local_login": settings.CORRAL_LOCAL_LOGIN,
    }
