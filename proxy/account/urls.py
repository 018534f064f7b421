"""Everything under /account/."""

from __future__ import annotations

from django.urls import path

from proxy.account import views

app_name = "account"

urlpatterns = [
    path("", views.home, name="home"),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.Logout.as_view(), name="logout"),
    path("password/", views.Password.as_view(), name="password"),
    path("keys/<str:public_id>/rotate/", views.rotate, name="rotate"),
    path("keys/<str:public_id>/revoke/", views.revoke, name="revoke"),
]
