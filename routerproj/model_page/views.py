"""The model page: the page, its parts for its script, and its log."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _

from models_registry.admin.memory_shown import measured_shown
from models_registry.describing import described
from models_registry.errors import ManagementRefused
from models_registry.models import Preset
from routerproj.live import answer_speeds
from scheduler.describing import live_snapshot, waiters_of
from scheduler.live_page.shown import Cards
from scheduler.live_page.words import upcoming_told
from scheduler.protocol import Refused

from .access import DECISIONS, may_look, may_see_runs, may_see_usage
from .facts import facts_of
from .history import history_of
from .log import log_of
from .usage import usage_of


def model_urls() -> list[URLPattern]:
    return [
        path("<int:pk>/", admin.site.admin_view(page), name="page"),
        path("<int:pk>/parts/", parts, name="parts"),
        path("<int:pk>/lines/", log, name="log"),
    ]


def page(request: HttpRequest, pk: int) -> HttpResponse:
    if not may_look(request.user):
        raise PermissionDenied
    presets = Preset.objects.select_related("model_file__metadata", "group")
    preset = get_object_or_404(presets, pk=pk)
    own = {
        **admin.site.each_context(request),
        "title": _("Model %(name)s") % {"name": preset.name},
        "may_change": request.user.has_perm("models_registry.change_preset"),
        "started": _started(preset),
        "measured": measured_shown(preset),
        **facts_of(preset),
        **_live(request, preset),
    }
    if own["may_see_runs"]:
        own["log"] = _log(request, preset)
    if may_see_usage(request.user):
        own |= usage_of(preset.name, request.GET.get("period", ""))
    request.current_app = admin.site.name
    return _fresh(TemplateResponse(request, "model/page.html", own))


def _started(preset: Preset) -> dict[str, Any]:
    try:
        return described(preset)
    except ManagementRefused as refusal:
        return {"problem": str(refusal)}


# What its script asks for: an ended session gets no login page into its midst -------------------


def parts(request: HttpRequest, pk: int) -> HttpResponse:
    preset = Preset.objects.filter(pk=pk).first()
    if preset is None or not may_look(request.user):
        return HttpResponse(status=403)
    return _fresh(TemplateResponse(request, "model/parts.html", _live(request, preset)))


def log(request: HttpRequest, pk: int) -> HttpResponse:
    preset = Preset.objects.filter(pk=pk).first()
    if preset is None or not may_see_runs(request.user):
        return HttpResponse(status=403)
    shown = {"preset": preset, "log": _log(request, preset)}
    return _fresh(TemplateResponse(request, "model/lines.html", shown))


# What they share --------------------------------------------------------------------------------


def _live(request: HttpRequest, preset: Preset) -> dict[str, Any]:
    now = time.time()
    sees_runs = may_see_runs(request.user)
    found: dict[str, Any] = {
        "preset": preset,
        "now": now,
        "cards": [],
        "away": "",
        "may_see_runs": sees_runs,
        "may_ask": request.user.has_perm("models_registry.change_preset"),
    }
    try:
        snapshot = live_snapshot()
        found["problem"] = snapshot.problems.get(preset.name, "")
        found["cards"] = Cards(snapshot, answer_speeds(), now, only=preset.name).shown()
        found["upcoming"] = _upcoming(preset)
    except Refused as refusal:
        found["away"] = refusal.message
    if sees_runs and request.GET.get("past") != "0":
        sees_decisions = request.user.has_perm(DECISIONS)
        logs = settings.CORRAL_LOG_FOLDER
        found["history"] = history_of(logs, preset.name, decisions=sees_decisions)
    return found


def _upcoming(preset: Preset) -> str:
    """How long a request that came now would wait; or why there is none: one that is in no profile
    that is on is not offered."""
    try:
        return upcoming_told(waiters_of(preset.name, limit=1, offset=0).next)
    except Refused as refusal:
        return refusal.message


def _log(request: HttpRequest, preset: Preset) -> dict[str, Any]:
    run, find = request.GET.get("run", ""), request.GET.get("find", "")
    return log_of(settings.CORRAL_LOG_FOLDER, preset.name, run, find)


def _fresh(answer: TemplateResponse) -> TemplateResponse:
    add_never_cache_headers(answer)
    return answer
