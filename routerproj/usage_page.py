"""The admin's pages on usage: charts, which join what the proxy counts to what the scheduler
recorded, and single requests."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from models_registry.admin.base import ReadOnlyAdmin
from models_registry.models import Preset
from proxy.models import Team, UsageDay
from proxy.usage_pages.asking import By
from proxy.usage_pages.page import Wish, usage_page
from proxy.usage_pages.sight import SEE_ALL, Sight
from routerproj.swaps import swaps


@admin.register(UsageDay)
class UsageAdmin(ReadOnlyAdmin):
    """Its list is the page: nobody reads sums one by one."""

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return request.user.has_perm(SEE_ALL)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        wish = Wish.of(request.GET.dict())
        context = usage_page(wish, Sight(everything=True))
        context["sections"].append(swaps(context["span"], wish.only.get(By.MODEL, "")))
        own = {
            **context,
            **self.admin_site.each_context(request),
            "title": _("Usage"),
            "opts": self.opts,
            "teams": Team.objects.values_list("name", flat=True),
            "models": Preset.objects.order_by("name").values_list("name", flat=True),
            "requests_url": reverse("admin:proxy_usagerecord_changelist"),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "usage/page.html", own)

    def change_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Old links lead to the page."""
        return self.changelist_view(request)
