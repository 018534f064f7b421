"""Who asks Django's side of the gateway: the holder of a key, or somebody in a session.

`--no-auth` opens the gateway, never this: who may edit presets decides what runs on the machine.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import Error as DatabaseError
from django.http import HttpRequest

from models_registry.access import Asker
from proxy.account.second_factor import Awaited
from proxy.headers import RawHeaders
from proxy.keys import key_in, stored_key
from proxy.last_uses import note_use
from proxy.log_context import comes_from
from proxy.models import ApiKey
from proxy.scopes import Scope
from scheduler.protocol import Refused


def identify(request: HttpRequest) -> Asker:
    """Who manages. Raises Refused, also for who is known and may not."""
    return _managing(somebody(request))


def somebody(request: HttpRequest) -> Asker:
    """Whoever has a usable key or a session, to be shown what is their own. Raises Refused. A key
    that was sent decides: a bad one is not made good by a session."""
    headers = [
        (name.lower().encode(), request.headers[name].encode("latin-1", "replace"))
        for name in ("Authorization", "X-Api-Key")
        if name in request.headers
    ]
    return _by_headers(headers) if headers else _by_session(request)


def by_headers(headers: RawHeaders) -> Asker:
    """By the key in them. Raises Refused when there is none, or none that may manage."""
    return _managing(_by_headers(headers))


def _managing(asker: Asker) -> Asker:
    if asker.manages:
        return asker
    if asker.key:
        raise _may_not_manage(asker.label)
    raise Refused("permission_denied", f"{asker.label} may not enter the admin.")


def _by_headers(headers: RawHeaders) -> Asker:
    try:
        return _by_key(key_in(headers))
    except DatabaseError as error:
        raise _unavailable() from error


def _by_key(text: bytes) -> Asker:
    key = stored_key(text)
    if key is None:
        if text.decode("latin-1") in settings.CORRAL_API_KEYS:
            raise _may_not_manage("a key of serve's command line")
        raise Refused("invalid_api_key", "This API key is not valid, or no longer.")
    comes_from(key.public_id, key.team.name)
    note_use(key)
    scopes = key.effective_scopes
    manages = Scope.ADMIN in scopes
    return Asker(
        label_of(key) if manages else str(key),
        everything=manages,
        manages=manages,
        user=key.user_id,
        key=key.public_id,
        scopes=scopes,
        team=key.team_id,
    )


def label_of(key: ApiKey) -> str:
    return f"the admin key {key.name} (ck_{key.public_id})"[:100]  # what a history row holds


def _may_not_manage(key: str) -> Refused:
    return Refused(
        "permission_denied",
        f"{key} may not manage: it lacks the scope `admin`, with which `manage.py createkey NAME "
        "--admin` makes a key.",
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
    if isinstance(user, Awaited):
        raise Refused(
            "permission_denied",
            "This session has yet to show its second factor: open /account/second-factor/.",
        )
    if isinstance(user, AnonymousUser):
        raise Refused(
            "invalid_api_key",
            "An admin key is needed (`Authorization: Bearer <key>`), or a session of the admin.",
        )
    from ninja.utils import check_csrf  # a tenth of a second, which only web processes need

    if check_csrf(request) is not None:
        raise Refused(
            "permission_denied",
            "With a session, send the cookie `csrftoken` in the header X-CSRFToken as well.",
        )
    manages = user.is_active and user.is_staff
    return Asker(
        str(user),
        everything=manages and user.is_superuser,
        permissions=frozenset(user.get_all_permissions() if manages else ()),
        manages=manages,
        user=user.pk,
    )
