"""Few passwords are checked at once: a check is meant to be slow, and floods of them would take the
processors from the answers under way.

Limiting who tries how often is another matter, and not this one's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

AT_ONCE = 2
MOST_WAITING = 10
RETRY_SECONDS = 5

ENDINGS = ("/login/", "/password_change/", "/password/", "/second-factor/start/", "/sign-on/")
"""Of paths whose POST hashes a password, or asks the provider of single sign-on."""


class FewPasswordChecks:
    """A middleware. The body has been read before it: a slow sender holds no place.

    It counts where requests are asynchronous, as our servers' all are; a test's client passes.
    """

    sync_capable: ClassVar[bool] = True
    async_capable: ClassVar[bool] = True

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> None:
        self._get_response = get_response
        self._places = asyncio.Semaphore(AT_ONCE)
        self._inside = 0
        self._asynchronous = iscoroutinefunction(get_response)
        if self._asynchronous:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Awaitable[HttpResponseBase]:
        if not self._asynchronous or not _checks_a_password(request):
            return self._get_response(request)
        return self._in_turn(request)

    async def _in_turn(self, request: HttpRequest) -> HttpResponseBase:
        if self._inside >= AT_ONCE + MOST_WAITING:
            return HttpResponse(
                _("Too many people log in at this moment: try again in a few seconds."),
                status=503,
                content_type="text/plain; charset=utf-8",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        self._inside += 1
        try:
            async with self._places:
                return await self._get_response(request)
        finally:
            self._inside -= 1


def _checks_a_password(request: HttpRequest) -> bool:
    """Also the admin's pages for others' log-in: they show the form under any path of theirs."""
    return request.method == "POST" and request.path.endswith(ENDINGS)
