"""Pages for everybody who is logged in: within the admin for who may enter it, and under
/account/ for others."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse_lazy
from django.utils.cache import add_never_cache_headers

logged_in = login_required(login_url=reverse_lazy("account:login"))


def own_page(
    request: HttpRequest, template: str, title: str, context: dict[str, Any]
) -> HttpResponse:
    """The template extends `base`."""
    staff = admin.site.has_permission(request)
    if staff:
        request.current_app = admin.site.name
    whole = {
        **admin.site.each_context(request),
        "title": title,
        "base": "admin/base_site.html" if staff else "account/frame.html",
        **context,
    }
    answer = TemplateResponse(request, template, whole)
    add_never_cache_headers(answer)
    return answer
