"""What would fit, asked from a preset's form while it is being edited."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _

from models_registry import fitting
from models_registry.admin.base import CorralAdmin
from models_registry.admin.memory_shown import fit_shown
from models_registry.models import Preset

NEW, EDITED = "models_registry_preset_fit_new", "models_registry_preset_fit"
_FOLDER = "admin/models_registry/preset/"


def urls(model_admin: CorralAdmin) -> list[URLPattern]:
    view = model_admin.admin_site.admin_view(partial(_fit_view, model_admin))
    return [path("fit/", view, name=NEW), path("<int:pk>/fit/", view, name=EDITED)]


def url_for(model_admin: CorralAdmin, request: HttpRequest, preset: Preset | None) -> str:
    """Where the form is sent to be asked about; empty for who may not edit it."""
    if not may_edit(model_admin, request, preset):
        return ""
    return reverse(f"admin:{EDITED}", args=[preset.pk]) if preset else reverse(f"admin:{NEW}")


def may_edit(model_admin: CorralAdmin, request: HttpRequest, preset: Preset | None) -> bool:
    if preset is None:
        return model_admin.has_add_permission(request)
    return model_admin.has_change_permission(request, preset)


def _fit_view(
    model_admin: CorralAdmin, request: HttpRequest, pk: int | None = None
) -> HttpResponse:
    """Nothing is saved. A part of the page for its script; without one, a page of its own."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    preset = get_object_or_404(Preset, pk=pk) if pk is not None else None
    if not may_edit(model_admin, request, preset):
        raise PermissionDenied
    context = {"fit": _fit_of_form(model_admin, request, preset)}
    if request.headers.get("X-Requested-With") == "fetch":
        return TemplateResponse(request, f"{_FOLDER}fit.html", context)
    shared = model_admin.admin_site.each_context(request)
    page = {**shared, "title": _("What would fit"), "opts": model_admin.opts, **context}
    return TemplateResponse(request, f"{_FOLDER}fit_page.html", page)


def _fit_of_form(
    model_admin: CorralAdmin, request: HttpRequest, preset: Preset | None
) -> dict[str, Any]:
    form, faults = read_form(model_admin, request, preset)
    if faults:
        return {"problem": _("Correct the form first:"), "faults": faults}
    return fit_shown(lambda: fitting.fit_edited(form.instance, ladders=True))


def read_form(
    model_admin: CorralAdmin, request: HttpRequest, preset: Preset | None
) -> tuple[Any, list[dict[str, str]]]:
    """The form as it was sent, and what is wrong with it."""
    form_class: Any = model_admin.get_form(request, preset, change=preset is not None)
    form = form_class(request.POST, instance=preset)
    with transaction.atomic():  # the form reads the row under a lock
        valid = form.is_valid()
    return form, [] if valid else _faults(form)


def _faults(form: Any) -> list[dict[str, str]]:
    """Each with the field that it is about, if it is about one."""
    return [
        {
            "field": name if name in form.fields else "",
            "label": str(form.fields[name].label) if name in form.fields else "",
            "text": text,
        }
        for name, texts in form.errors.items()
        for text in texts
    ]
