"""Django's own paths. What the gateway answers is routed in asgi.py, before Django."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from routerproj.api import urls as management

handler404 = "routerproj.not_found.not_found"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("account/", include("proxy.account.urls")),
    path("admin/", admin.site.urls),
    path("router/api/", management),
]
