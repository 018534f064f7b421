"""Requests that a page of ours sends to the gateway by the session of who is logged in, in place of
a key. Only what the playground needs is carried so, and what changes anything needs the token of
its page (CSRF)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from models_registry.audit.actors import acting
from models_registry.audit.requests import occasion_of
from proxy.playground.session_keys import SESSION, AskKey, session_key
from routerproj import guard_rules as rules
from routerproj.socket_sessions import asked, logged_in
from scheduler.protocol import Refused

_PATH = re.compile(
    r"/account/playground/teams/([0-9]{1,18})(/v1/chat/completions|/v1/models)", re.ASCII
)


def is_carried(path: str) -> bool:
    return _PATH.fullmatch(path) is not None


def carried(scope: Any, hosts: Collection[str]) -> dict[str, Any] | None:
    """The scope that the gateway gets for it; None for what is not carried by a session."""
    found = _PATH.fullmatch(scope["path"])
    if found is None:
        return None
    path = found[2]
    ask: AskKey = partial(_key, scope, int(found[1]), hosts)
    return {**scope, "path": path, "raw_path": path.encode(), "query_string": b"", SESSION: ask}


async def _key(scope: Any, team: int, hosts: Collection[str]) -> str:
    """Raises Refused."""
    rules.check_host(scope, hosts)
    return await asked(_of_session, scope, team)


def _of_session(scope: Any, team: int) -> str:
    request = ASGIRequest(scope, BytesIO())
    user = logged_in(request, request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    if user is None:
        raise Refused("invalid_api_key", "You are not logged in any more: log in again.")
    if _is_forged(request):
        raise Refused(
            "permission_denied", "The page is too old, or not of this gateway: load it again."
        )
    with acting(lambda: occasion_of(request)):
        return session_key(user, team)


def _is_forged(request: HttpRequest) -> bool:
    """By the rules for forms: the token in X-CSRFToken, and the page's origin."""
    check = CsrfViewMiddleware(lambda _: HttpResponse())
    check.process_request(request)
    return check.process_view(request, lambda _: HttpResponse(), (), {}) is not None
