"""A Content-Security-Policy with every page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class PageHeaders:
    """A middleware. What is no page (JSON, CSV, scripts) is not rendered, and needs none."""

    sync_capable: ClassVar[bool] = True
    async_capable: ClassVar[bool] = True

    def __init__(
        self,
        get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]],
    ) -> None:
        self._get_response = get_response
        self._asynchronous = iscoroutinefunction(get_response)
        if self._asynchronous:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        answer = self._get_response(request)
        return self._later(answer) if isinstance(answer, Awaitable) else _with_policy(answer)

    async def _later(self, answer: Awaitable[HttpResponseBase]) -> HttpResponseBase:
        return _with_policy(await answer)


def _with_policy(answer: HttpResponseBase) -> HttpResponseBase:
    if answer.headers.get("Content-Type", "").startswith("text/html"):
        answer.headers.setdefault("Content-Security-Policy", settings.CORRAL_PAGE_POLICY)
    return answer
