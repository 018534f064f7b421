"""Everything under /account/."""

from __future__ import annotations

from django.urls import path

from proxy.account import factor_views, trail, usage_views, views
from proxy.first_steps import views as first_steps
from proxy.playground import views as playground

app_name = "account"

urlpatterns = [
    path("", views.home, name="home"),
    path("playground/", playground.page, name="playground"),
    path("connect/", first_steps.page, name="connect"),
    path("connect/state/", first_steps.state, name="connect-state"),
    path("connect/join/", first_steps.join, name="join"),
    path("changes/", trail.trail, name="changes"),
    path("usage/", usage_views.usage, name="usage"),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.Logout.as_view(), name="logout"),
    path("password/", views.Password.as_view(), name="password"),
    path("second-factor/", factor_views.home, name="second-factor"),
    path("second-factor/check/", factor_views.check, name="second-factor-check"),
    path("second-factor/start/", factor_views.start, name="second-factor-start"),
    path("second-factor/confirm/", factor_views.confirm, name="second-factor-confirm"),
    path("second-factor/recovery/", factor_views.recovery, name="second-factor-recovery"),
    path("second-factor/remove/", factor_views.give_up, name="second-factor-remove"),
    path("teams/<int:id>/content/", views.switch_team_content, name="content"),
    path("keys/<str:public_id>/rotate/", views.rotate, name="rotate"),
    path("keys/<str:public_id>/revoke/", views.revoke, name="revoke"),
]
