"""The live page: the page, its parts for its script, why something is as it is, and its buttons."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.contrib.messages import get_messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from models_registry.admin.asking import PINS, WISHES, ask
from models_registry.models import Preset
from scheduler.describing import explained, live_devices, live_snapshot
from scheduler.models import DecisionRecord, InstanceRecord
from scheduler.protocol import Refused

from . import why
from .shown import Cards, Speeds, device_shown, queue_shown
from .timeline import SPANS, timeline

VERBS = ("load", "unload", "apply", *PINS)
MOST_NAMES = 1000
"""Of presets that are offered to be loaded; others are typed."""


def live_urls(speeds: Callable[[], Speeds]) -> list[URLPattern]:
    """`speeds` tells how fast models answered lately."""
    view = admin.site.admin_view
    return [
        path("", view(partial(page, speeds=speeds)), name="page"),
        path("parts/", partial(parts, speeds=speeds), name="parts"),
        path("ask/", view(require_POST(asked)), name="ask"),
        path("why/request/<str:request_id>/", view(why_request), name="why_request"),
        path("why/decision/<int:key>/", view(why_decision), name="why_decision"),
        path("why/instance/<int:key>/", view(why_instance), name="why_instance"),
    ]


def may_look(request: HttpRequest) -> bool:
    return admin.site.has_permission(request) and _may(request, "scheduler.view_instancerecord")


def _may(request: HttpRequest, permission: str) -> bool:
    return request.user.has_perm(permission)


def _check(request: HttpRequest) -> None:
    if not may_look(request):
        raise PermissionDenied


def page(request: HttpRequest, speeds: Callable[[], Speeds]) -> HttpResponse:
    _check(request)
    names = Preset.objects.order_by("name").values_list("name", flat=True)[:MOST_NAMES]
    own = {
        **admin.site.each_context(request),
        "title": _("Live"),
        "names": list(names) if _may(request, "models_registry.change_preset") else [],
        **_live(request, speeds),
    }
    request.current_app = admin.site.name
    return _fresh(TemplateResponse(request, "live/page.html", own))


def parts(request: HttpRequest, speeds: Callable[[], Speeds]) -> HttpResponse:
    """What the script asks for, without the timeline where nothing new can be in it. An ended
    session gets no login page into its midst."""
    if not may_look(request):
        return HttpResponse(status=403)
    return _fresh(TemplateResponse(request, "live/parts.html", _live(request, speeds)))


def _live(request: HttpRequest, speeds: Callable[[], Speeds]) -> dict[str, Any]:
    now = time.time()
    found: dict[str, Any] = {"devices": [], "cards": [], "queue": None, "away": ""}
    try:
        snapshot = live_snapshot()
        found["devices"] = [device_shown(each) for each in live_devices()]
        found["cards"] = Cards(snapshot, speeds(), now).shown()
        found["queue"] = queue_shown(snapshot.queue, now)
    except Refused as refusal:
        found["away"] = refusal.message
    span, leave_out = request.GET.get("span", ""), request.GET.get("past") == "0"
    sees_decisions = _may(request, "scheduler.view_decisionrecord")
    return found | {
        "now": now,
        "timeline": None if leave_out else timeline(span, decisions=sees_decisions),
        "spans": [(name, title) for name, (_length, title) in SPANS.items()],
        "may_ask": _may(request, "models_registry.change_preset"),
    }


def _fresh(answer: TemplateResponse) -> TemplateResponse:
    add_never_cache_headers(answer)
    return answer


# Buttons --------------------------------------------------------------------------------------


def asked(request: HttpRequest) -> HttpResponse:
    """By the script it is told as JSON; else as a message on the page."""
    if not _may(request, "models_registry.change_preset"):
        raise PermissionDenied
    verb, name = request.POST.get("verb", ""), request.POST.get("preset", "")
    if verb not in VERBS:
        raise Http404(f"nothing is called {verb!r}: it is one of {', '.join((*WISHES, *PINS))}")
    preset = Preset.objects.filter(name=name).first()
    if preset is None:
        told = [("error", _("No preset is called “%(name)s”.") % {"name": name})]
        return _told(request, told)
    ask(request, verb, [preset])
    return _told(request, [])


def _told(request: HttpRequest, told: list[tuple[str, str]]) -> HttpResponse:
    if request.headers.get("X-Requested-With") != "fetch":
        for _level, text in told:
            messages.error(request, text)
        return HttpResponseRedirect(reverse("live:page"))
    said = [*told, *((each.level_tag, each.message) for each in get_messages(request))]
    return JsonResponse({"told": [{"level": level, "text": text} for level, text in said]})


# Why ------------------------------------------------------------------------------------------


def why_request(request: HttpRequest, request_id: str) -> HttpResponse:
    _check(request)
    try:
        told = why.why_request(explained(request_id))
    except Refused as refusal:
        told = why.why_not_known(request_id, refusal)
    return _why(request, told)


def why_decision(request: HttpRequest, key: int) -> HttpResponse:
    if not _may(request, "scheduler.view_decisionrecord"):
        raise PermissionDenied
    return _why(request, why.why_decision(get_object_or_404(DecisionRecord, pk=key)))


def why_instance(request: HttpRequest, key: int) -> HttpResponse:
    _check(request)
    row = get_object_or_404(InstanceRecord, pk=key)
    sees_decisions = _may(request, "scheduler.view_decisionrecord")
    return _why(request, why.why_instance(row, decisions=sees_decisions))


def _why(request: HttpRequest, told: why.Why) -> HttpResponse:
    """For the script alone, or as a page."""
    alone = request.headers.get("X-Requested-With") == "fetch"
    context: dict[str, Any] = {"why": told}
    if not alone:
        context |= {**admin.site.each_context(request), "title": told.title}
    template = "live/why.html" if alone else "live/why_page.html"
    return _fresh(TemplateResponse(request, template, context))
