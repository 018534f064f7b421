"""Beside proxy's pages under /account/, in their namespace."""

from __future__ import annotations

from django.urls import path

from routerproj.sign_on import views

urlpatterns = [
    path("sign-on/", views.begin, name="sign-on"),
    path("sign-on/callback/", views.callback, name="sign-on-callback"),
]
