"""Trying a preset as its form stands: it is loaded, asked for a few tokens, and ended, as long as
the page listens. Nothing is saved."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils import translation
from django.utils.translation import gettext as _

from models_registry import fitting
from models_registry.admin.base import CorralAdmin, mebibytes
from models_registry.admin.fit import may_edit, read_form
from models_registry.admin.memory_shown import place, tokens
from models_registry.admin.state_words import holdup_words
from models_registry.engines import EngineKind
from models_registry.errors import ManagementRefused
from models_registry.models import Preset
from models_registry.ports import Running, SchedulerRefused, SchedulerUnavailable, TrialNews

NEW, EDITED = "models_registry_preset_trial_new", "models_registry_preset_trial"


def urls(model_admin: CorralAdmin) -> list[URLPattern]:
    view = model_admin.admin_site.admin_view(partial(_trial_view, model_admin))
    return [path("trial/", view, name=NEW), path("<int:pk>/trial/", view, name=EDITED)]


def url_for(model_admin: CorralAdmin, request: HttpRequest, preset: Preset | None) -> str:
    """Where the form is sent to be tried; empty for who may not, and for what runs elsewhere."""
    if not may_edit(model_admin, request, preset):
        return ""
    if preset is not None and preset.engine == EngineKind.UPSTREAM:
        return ""
    return reverse(f"admin:{EDITED}", args=[preset.pk]) if preset else reverse(f"admin:{NEW}")


def _trial_view(
    model_admin: CorralAdmin, request: HttpRequest, pk: int | None = None
) -> HttpResponseBase:
    """One JSON object a line, as it happens. When the page goes, so does the trial."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    preset = get_object_or_404(Preset, pk=pk) if pk is not None else None
    if not may_edit(model_admin, request, preset):
        raise PermissionDenied
    lines = _lines(_begun(model_admin, request, preset), translation.get_language())
    answer = StreamingHttpResponse(lines, content_type="application/x-ndjson")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["X-Accel-Buffering"] = "no"
    return answer


def _begun(
    model_admin: CorralAdmin, request: HttpRequest, preset: Preset | None
) -> AsyncGenerator[TrialNews] | str:
    """Or why it cannot begin."""
    form, faults = read_form(model_admin, request, preset)
    if faults:
        told = "; ".join(": ".join(filter(None, (f["label"], f["text"]))) for f in faults)
        return _("Correct the form first: %(faults)s") % {"faults": told}
    try:
        return fitting.tried_edited(form.instance)
    except SchedulerUnavailable as error:
        return _("The scheduler does not answer: %(error)s") % {"error": error}
    except (SchedulerRefused, ManagementRefused) as refusal:
        return str(refusal)


async def _lines(
    begun: AsyncGenerator[TrialNews] | str, language: str | None
) -> AsyncIterator[bytes]:
    if isinstance(begun, str):
        yield _line({"stage": "failed", "text": begun})
        return
    async with aclosing(begun) as told:
        async for news in told:
            with translation.override(language):
                shown = _shown(news)
            yield _line(shown)


def _line(shown: dict[str, Any]) -> bytes:
    return json.dumps(shown).encode() + b"\n"


def _shown(news: TrialNews) -> dict[str, Any]:
    """`text` is a sentence, `words` what a child or the scheduler said."""
    return {
        "stage": news.stage,
        "text": _text(news),
        "words": holdup_words(news.words) if news.stage == "waits" else news.words,
        "progress": news.progress,
        "figures": _figures(news) if news.stage in ("loaded", "answered", "failed") else [],
    }


def _text(news: TrialNews) -> str:
    seconds = _seconds(news.seconds)
    match news.stage:
        case "waits":
            return _("It waits, for %(time)s now.") % {"time": seconds}
        case "loads":
            return _("It is being loaded, for %(time)s now.") % {"time": seconds}
        case "loaded":
            return _("It is loaded, and is asked for a few tokens.")
        case "answered":
            return _(
                "It works: it was loaded, has answered, and is ended again. Nothing was saved."
            )
        case _:
            return _("It failed after %(time)s. Nothing was saved.") % {"time": seconds}


def _figures(news: TrialNews) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if news.load_seconds:
        found.append((_("Load"), _seconds(news.load_seconds)))
    if news.first is not None:
        found.append((_("First token after"), _seconds(news.first)))
    if news.answer_speed is not None:
        speed = _("%(speed)s tokens/s") % {"speed": f"{news.answer_speed:,.1f}"}
        found.append((_("Answer, of %(count)s tokens") % {"count": news.tokens}, speed))
    if news.read_speed is not None:
        found.append((_("Prompt"), _("%(speed)s tokens/s") % {"speed": f"{news.read_speed:,.1f}"}))
    if news.running is not None:
        found += _memory(news.running)
    if news.made_way:
        told = _("%(names)s; loaded again now, if there is still room")
        found.append((_("Made way for it"), told % {"names": ", ".join(news.made_way)}))
    return found


def _memory(running: Running) -> list[tuple[str, str]]:
    where = place(running.kind, running.layers)
    found = [(_("Where"), f"{where}, {tokens(running.context)}")] if where else []
    for device in {**running.predicted, **running.actual}:
        words = _("predicted %(size)s") % {"size": mebibytes(running.predicted.get(device, 0))}
        if running.actual:
            size = mebibytes(running.actual.get(device, 0))
            words += ", " + _("measured %(size)s") % {"size": size}
        found.append((_("Memory on %(device)s") % {"device": device}, words))
    return found


def _seconds(seconds: float) -> str:
    return _("%(count)s s") % {"count": f"{seconds:,.1f}" if seconds < 100 else f"{seconds:,.0f}"}
