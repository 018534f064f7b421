"""Who may listen to a WebSocket, or see how the gateway is, by the session of the admin: people who
may enter it, from our own pages. A browser sends its cookies along with any page's WebSocket, and
nothing else of ours; what it gets by HTTP, another page may not read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser, User
from django.db import Error as DatabaseError
from django.http import HttpRequest

from proxy.account.second_factor import awaits
from routerproj import guard_rules as rules
from scheduler.protocol import Refused

T = TypeVar("T")


async def person_of(
    scope: Any, hosts: Collection[str], may: Callable[[User], bool] = lambda person: True
) -> str | None:
    """Their name; None for anybody else. Raises Refused when the database fails."""
    host = rules.host_name(rules.first_value(scope, b"host").decode("latin-1"))
    session = _session_key(rules.first_value(scope, b"cookie"))
    plain = scope.get("type") == "http" and not rules.first_value(scope, b"origin")
    ours = plain or rules.is_own_origin(scope)
    if not (session and ours and rules.host_allowed(host, hosts)):
        return None
    return await asked(_staff_name, session, may)


async def asked(call: Callable[..., T], *arguments: Any) -> T:
    """What it says, in a thread. Raises Refused when the database fails."""
    try:
        answer: T = await database_sync_to_async(call)(*arguments)
    except DatabaseError as error:
        raise Refused(
            "auth_unavailable", "Who asks cannot be checked at the moment.", retry_after_seconds=1.0
        ) from error
    return answer


def logged_in(request: HttpRequest, session_key: str | None) -> User | None:
    """Whose session it is; nobody's while a second factor is awaited. The request has it then."""
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    request.user = user = get_user(request)
    if isinstance(user, AnonymousUser) or awaits(user, request.session):
        return None
    return user


def _session_key(cookies: bytes) -> str:
    try:
        found = SimpleCookie(cookies.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _staff_name(session_key: str, may: Callable[[User], bool]) -> str | None:
    user = logged_in(HttpRequest(), session_key)
    if user is None or not (user.is_active and user.is_staff and may(user)):
        return None
    name: str = user.get_username()
    return name
