"""Who acts in a request of Django's: a middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from models_registry.access import Asker
from models_registry.audit.actors import NOBODY, Actor, Door, Kind, Occasion, acting, actor_of
from models_registry.client_address import client_address

_DOORS = (("/router/api/", Door.REST), ("/account", Door.ACCOUNT))


class AuditedRequests:
    """Whatever the request changes is recorded as its asker's. Stands after the authentication."""

    sync_capable: ClassVar[bool] = True
    async_capable: ClassVar[bool] = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._asynchronous = iscoroutinefunction(get_response)
        if self._asynchronous:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._asynchronous:
            return self._awaited(request)
        with acting(lambda: occasion_of(request)):
            answer: HttpResponseBase = self._get_response(request)
        return answer

    async def _awaited(self, request: HttpRequest) -> HttpResponseBase:
        with acting(lambda: occasion_of(request)):
            answer: HttpResponseBase = await self._get_response(request)
        return answer


def occasion_of(request: HttpRequest) -> Occasion:
    """As far as it is known by now: the management API learns it when it looks for a key."""
    actor = _actor(request)
    return Occasion(
        actor,
        next((door for start, door in _DOORS if request.path.startswith(start)), Door.ADMIN),
        client_address(request) or "",
        request.headers.get("X-Request-Id", ""),
        frozenset({actor.name}),
    )


def _actor(request: HttpRequest) -> Actor:
    asker = getattr(request, "auth", None)
    if isinstance(asker, Asker):
        return actor_of(asker)
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return NOBODY
    return Actor(Kind.USER, user.get_username(), user.pk)
