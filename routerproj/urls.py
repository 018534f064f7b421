"""Django's own paths. What the gateway answers is routed in asgi.py, before Django."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
