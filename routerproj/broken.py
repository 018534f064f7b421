"""Something broke under a page or a route: while the database is away that is all there is to say,
and it is said without asking the database."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import defaults

from proxy.queries import AWAY, database_away
from routerproj.api_answers import refused
from scheduler.protocol import retry_after

MANAGEMENT = "/router/api/"


def broken(request: HttpRequest) -> HttpResponse:
    """Called where the exception is being handled."""
    error = sys.exception()
    if not isinstance(error, AWAY):
        return defaults.server_error(request)
    away = database_away(error)
    if request.path.startswith(MANAGEMENT) or "text/html" not in request.headers.get("Accept", ""):
        return refused(away.code, away.message, retry_after_seconds=away.retry_after_seconds)
    page = HttpResponse(render_to_string("503.html", {"path": request.get_full_path()}), status=503)
    page["Retry-After"] = retry_after(away.retry_after_seconds or 1.0)
    page["Cache-Control"] = "no-store"
    return page
