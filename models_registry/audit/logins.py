"""Who logged in and out, and who tried to."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed

from models_registry.audit.writing import record

LONGEST_NAME = 150
"""Characters of a name that was tried; nobody's is longer."""


def connect() -> None:
    """Called once, when Django is ready."""
    for signal, receiver in (
        (user_logged_in, _logged_in),
        (user_logged_out, _logged_out),
        (user_login_failed, _failed),
    ):
        signal.connect(receiver, dispatch_uid=f"audit{receiver.__name__}")


def _logged_in(user: Any, **_: Any) -> None:
    record("logged in", "user", user.get_username(), id=user.pk)


def _logged_out(user: Any, **_: Any) -> None:
    if user is not None:
        record("logged out", "user", user.get_username(), id=user.pk)


def _failed(credentials: Any, **_: Any) -> None:
    name = str(credentials.get("username") or "")[:LONGEST_NAME]
    user = User.objects.filter(username=name).first() if name else None
    record(
        "login failed",
        "user",
        name or "without a name",
        id=user.pk if user is not None else "",
        note="" if user is not None else "no account is called so",
    )
