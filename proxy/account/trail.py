"""What was changed in the teams that somebody leads: the trail for who is not in the admin."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from models_registry.audit.searching import ACTIONS, Search
from models_registry.models import AuditRecord
from proxy.account.pages import logged_in
from proxy.members import teams_led_by

ROWS_PER_PAGE = 50
LONGEST_SOUGHT = 200
LONGEST_SHOWN = 120
"""Characters of a value."""


@never_cache
@require_GET
@logged_in
def trail(request: HttpRequest) -> HttpResponse:
    """The same records as the management API gives their leads."""
    assert isinstance(request.user, User)  # login_required lets nobody else in
    teams = teams_led_by(request.user)
    if not teams:
        raise PermissionDenied(gettext("Only who leads a team sees what was changed in it."))
    said = {name: request.GET.get(name, "").strip() for name in ("who", "object", "action")}
    asked = {name: text.replace("\0", "")[:LONGEST_SOUGHT] for name, text in said.items()}
    rows = (
        Search(who=asked["who"], object=asked["object"], action=asked["action"])
        .rows()
        .filter(team__in=teams)
    )
    shown = Paginator(rows, ROWS_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        **admin.site.each_context(request),
        "title": gettext("Changes in your teams"),
        "records": [(row, _differences(row)) for row in shown],
        "records_page": shown,
        "asked": asked,
        "actions": ACTIONS,
        "query": urlencode({name: text for name, text in asked.items() if text}),
    }
    return TemplateResponse(request, "account/trail.html", context)


def _differences(row: AuditRecord) -> list[tuple[str, str, str]]:
    """Of each field its name, and its value before and after."""
    changes = json.loads(row.changes).items()
    return [(name.replace("_", " "), _text(old), _text(new)) for name, (old, new) in changes]


def _text(value: object) -> str:
    if value in (None, "", [], {}):
        return gettext("unset")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
