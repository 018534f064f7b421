"""Passwords, where single sign-on is the usual way in."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest


class FewPasswords(ModelBackend):
    """Those that CORRAL_LOCAL_LOGIN still takes: `staff`'s, or nobody's. Sessions that have begun
    some other way are as good as ever."""

    def authenticate(
        self, request: HttpRequest | None, *args: Any, **credentials: Any
    ) -> User | None:
        user: Any = super().authenticate(request, *args, **credentials)
        if user is None or settings.CORRAL_LOCAL_LOGIN == "off" or not user.is_staff:
            return None
        found: User = user
        return found
