"""Who has tried too many passwords for an account waits before the next one: django-axes counts
them, in the database, for all web processes together.

Counted is by account and address together: from elsewhere its owner gets in all the same.
"""

from __future__ import annotations

import math
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _

from models_registry.client_address import client_address

LONGEST_NAME = 150
HOUSE_BITS = 64
"""Of an IPv6 address: whoever has one has the whole network of it."""


def client_network(request: HttpRequest) -> str | None:
    """The address to count under."""
    address = client_address(request)
    if address is None or ":" not in address:
        return address
    return str(ip_network((address, HOUSE_BITS), strict=False).network_address)


def account_named(request: HttpRequest, credentials: Any) -> str:
    """Whose password is tried, as far as a user's name reaches: longer ones are nobody's."""
    named = credentials if credentials is not None else request.POST
    return str(named.get("username") or "")[:LONGEST_NAME]


def in_the_log(
    username: str | None, address: str | None, agent: str, path: str, request: HttpRequest
) -> str:
    """For a log whose lines others count."""
    return _("%(username)s from %(address)s") % {"username": f"{username!r}", "address": address}


def too_many_tries(request: HttpRequest, *others: Any) -> HttpResponse:
    """The page in place of the answer. axes tells the credentials in places that differ; they are
    always with the request."""
    from django.contrib import admin
    from django.template.response import TemplateResponse

    seconds = _seconds_left(request)
    until = timezone.now() + timedelta(seconds=seconds)
    context = {
        **admin.site.each_context(request),
        "title": _("Too many wrong passwords"),
        "until": until,
        "minutes": math.ceil(seconds / 60),
    }
    answer = TemplateResponse(request, "account/too_many_tries.html", context, status=429)
    answer["Retry-After"] = str(seconds)
    return answer.render()


def _seconds_left(request: HttpRequest) -> int:
    from axes.handlers.database import AxesDatabaseHandler

    credentials = getattr(request, "axes_credentials", None)
    tries = (
        each.attempt_time
        for attempts in AxesDatabaseHandler().get_user_attempts(request, credentials)
        for each in attempts
    )
    left = max(tries, default=timezone.now()) + settings.AXES_COOLOFF_TIME - timezone.now()
    return max(1, math.ceil(left.total_seconds()))
