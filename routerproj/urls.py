"""Django's own paths. What the gateway answers is routed in asgi.py, before Django."""

from __future__ import annotations

from importlib import import_module

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.i18n import set_language

from proxy.account import urls as account
from routerproj.api import urls as management
from routerproj.live import answer_speeds, home
from routerproj.model_page.views import model_urls
from routerproj.waiting import waiting
from scheduler.live_page.views import live_urls

handler404 = "routerproj.not_found.not_found"
handler500 = "routerproj.broken.broken"

has_sign_on = settings.CORRAL_OIDC is not None and not settings.PAGELESS
sign_on = import_module("routerproj.sign_on.urls").urlpatterns if has_sign_on else []
playing = [path("playground/waiting/<str:request_id>/", waiting, name="waiting")]

urlpatterns = [
    path("", home, name="home"),
    path("language/", set_language, name="set_language"),
    path("account/", include(([*account.urlpatterns, *playing, *sign_on], account.app_name))),
    path("admin/live/", include((live_urls(answer_speeds), "live"))),
    path("admin/model/", include((model_urls(), "model"))),
    path("admin/", admin.site.urls),
    path("router/api/", management),
]
