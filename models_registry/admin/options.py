"""The engine's options, to be looked up while a preset is edited."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy

from models_registry.admin.base import CorralAdmin
from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing
from models_registry.options.catalogue import Catalogue, Kind, Option, engine_catalogue
from models_registry.options.refused_options import refusal

MOST_SHOWN = 30

_VALUES = {
    Kind.FLAG: gettext_lazy("true or false"),
    Kind.INT: gettext_lazy("a whole number"),
    Kind.FLOAT: "a number",
    Kind.TEXT: "text",
    Kind.PAIR: gettext_lazy("two values"),
}


def urls(model_admin: CorralAdmin) -> list[URLPattern]:
    view = model_admin.admin_site.admin_view(partial(_options_view, model_admin))
    return [path("options/", view, name="models_registry_preset_options")]


def _options_view(model_admin: CorralAdmin, request: HttpRequest) -> HttpResponse:
    """A part of the form's page: what `option` finds among names and help."""
    if not model_admin.has_view_or_change_permission(request):
        raise PermissionDenied
    try:
        catalogue, problem = engine_catalogue(llama_server()), ""
    except EngineMissing as error:
        catalogue, problem = Catalogue(()), str(error)
    found = list(found_options(catalogue, request.GET.get("option", "")))
    context = {
        "problem": problem,
        "options": found[:MOST_SHOWN],
        "more": max(0, len(found) - MOST_SHOWN),
    }
    return TemplateResponse(request, "admin/models_registry/preset/options.html", context)


def found_options(catalogue: Catalogue, words: str) -> Iterator[dict[str, Any]]:
    """Those that a preset may set and that have all of `words`, in a name or in the help; the ones
    that are called so come first."""
    wanted = words.lower().replace("_", "-").split()
    may_be_set = [each for each in catalogue.options if not each.removed and not refusal(each)]
    called = [each for each in may_be_set if _has(" ".join(each.names), wanted)]
    told = [each for each in may_be_set if each not in called and _has(_all(each), wanted)]
    for option in called + told:
        yield {
            "key": option.key,
            "names": ", ".join(option.spellings + option.negations),
            "values": ", ".join(option.choices) or _VALUES.get(option.kind, "text"),
            "default": option.default,
            "help": " ".join(option.help.split()),
        }


def _all(option: Option) -> str:
    return f"{' '.join(option.names)} {option.help}"


def _has(text: str, wanted: list[str]) -> bool:
    text = text.lower()
    return all(word in text for word in wanted)
