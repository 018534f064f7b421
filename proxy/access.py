"""Whose management request this is: the holder of an admin key, or somebody in an admin session.

`--no-auth` opens the gateway, never this: who may edit presets decides what runs on the machine.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import Error as DatabaseError
from django.http import HttpRequest

from models_registry.access import Asker
from proxy.headers import RawHeaders
from proxy.keys import key_in, stored_key
from proxy.last_uses import note_use
from proxy.models import ApiKey, Scope
from scheduler.protocol import Refused


def identify(request: HttpRequest) -> Asker:
    """Raises Refused. A key that was sent decides: a bad one is not made good by a session."""
    headers = [
        (name.lower().encode(), request.headers[name].encode("latin-1", "replace"))
        for name in ("Authorization", "X-Api-Key")
        if name in request.headers
    ]
    return by_headers(headers) if headers else _by_session(request)


def by_headers(headers: RawHeaders) -> Asker:
    """By the key in them. Raises Refused when there is none, or none that may manage."""
    try:
        return _by_key(key_in(headers))
    except DatabaseError as error:
        raise _unavailable() from error


def _by_key(text: bytes) -> Asker:
    key = stored_key(text)
    if key is None:
        if text.decode("latin-1") in settings.CORRAL_API_KEYS:
            raise _for_inference("a key of serve's command line")
        raise Refused("invalid_api_key", "This API key is not valid, or no longer.")
    if key.scope != Scope.ADMIN:
        raise _for_inference(str(key))
    note_use(key)
    return Asker(label_of(key), everything=True)


def label_of(key: ApiKey) -> str:
    return f"the admin key {key.name} (ck_{key.public_id})"[:100]  # what a history row holds


def _for_inference(key: str) -> Refused:
    return Refused(
        "permission_denied",
        f"{key} uses models and may not manage them: `manage.py createkey NAME --admin` makes "
        "one that may.",
    )


def _unavailable() -> Refused:
    return Refused(
        "auth_unavailable", "Who asks cannot be checked at the moment.", retry_after_seconds=1.0
    )


def _by_session(request: HttpRequest) -> Asker:
    try:
        return _asker_in_session(request)
    except DatabaseError as error:
        raise _unavailable() from error


def _asker_in_session(request: HttpRequest) -> Asker:
    user = request.user
    if isinstance(user, AnonymousUser):
        raise Refused(
            "invalid_api_key",
            "An admin key is needed (`Authorization: Bearer <key>`), or a session of the admin.",
        )
    if not (user.is_active and user.is_staff):
        raise Refused("permission_denied", f"{user} may not enter the admin.")
    from ninja.utils import check_csrf  # a tenth of a second, which only web processes need

    if check_csrf(request) is not None:
        raise Refused(
            "permission_denied",
            "With a session, send the cookie `csrftoken` in the header X-CSRFToken as well.",
        )
    return Asker(
        str(user),
        everything=user.is_superuser,
        permissions=frozenset(user.get_all_permissions()),
    )
