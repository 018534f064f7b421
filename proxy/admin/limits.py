"""Limits in the admin: on the pages of teams and keys, and as a list of its own. Each page tells
what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from models_registry.admin.history import HistoryAdmin
from proxy.limits.editing import limits
from proxy.limits.used import limits_now
from proxy.models import Limit
from proxy.models.limits import FIGURES

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _Inline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import TabularInline as _Inline


class LimitedAdmin(HistoryAdmin):
    """A row's page shows what is left of its limits, to who may see limits."""

    change_form_template = "admin/proxy/limited/change_form.html"

    def limits_shown(self, row: Any) -> QuerySet[Limit]:
        raise NotImplementedError

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = context.get("original")
        if row is not None and self._may_see_limits(request):
            context = {**context, **limits_now(self.limits_shown(row))}
        return super().render_change_form(request, context, *args, **kwargs)

    def _may_see_limits(self, request: HttpRequest) -> bool:
        return any(request.user.has_perm(f"proxy.{verb}_limit") for verb in ("view", "change"))


class LimitsInline(_Inline):
    model = Limit
    extra = 0
    fields = ["model", *FIGURES]
    verbose_name = "limit"


@admin.register(Limit)
class LimitAdmin(LimitedAdmin):
    """Its figures change; whose it is does not: another's limit is another row."""

    list_display = ["__str__", *FIGURES, "created_at"]
    list_filter = ["team"]
    list_select_related = ["team", "key"]
    search_fields = ["team__name", "key__name", "key__public_id", "model"]
    fields = ["team", "key", "model", *FIGURES]
    autocomplete_fields = ["team", "key"]

    def limits_shown(self, row: Limit) -> QuerySet[Limit]:
        return limits().filter(pk=row.pk)

    def get_readonly_fields(self, request: Any, obj: Limit | None = None) -> Any:
        return ["team", "key", "model"] if obj is not None else []
