"""A session that has yet to show its second factor is nobody's."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from proxy.account.second_factor import Awaited, awaits

PROGRAMS = "/router/api/"
"""There it is answered as to anybody without a key; every other page leads to where the code is
taken."""


class SecondFactor(MiddlewareMixin):
    """After the middleware that knows whose the session is."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if not awaits(request.user, request.session) or request.path in _open():
            return None
        request.user = nobody = Awaited()

        async def auser() -> Any:
            return nobody

        request.auser = auser
        if request.path.startswith(PROGRAMS):
            return None
        page = reverse("account:second-factor")
        if request.method in ("GET", "HEAD"):
            page += "?" + urlencode({"next": request.get_full_path()})
        return HttpResponseRedirect(page)


def _open() -> set[str]:
    names = ("account:logout", "admin:logout", "account:second-factor")
    steps = ("check", "start", "confirm")
    return {reverse(name) for name in names} | {
        reverse(f"account:second-factor-{step}") for step in steps
    }
