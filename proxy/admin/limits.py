"""Limits in the admin: on the pages of teams and keys, and as a list of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from models_registry.admin.history import HistoryAdmin
from proxy.models import Limit
from proxy.models.limits import FIGURES

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _Inline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import TabularInline as _Inline


class LimitsInline(_Inline):
    model = Limit
    extra = 0
    fields = ["model", *FIGURES]
    verbose_name = "limit"


@admin.register(Limit)
class LimitAdmin(HistoryAdmin):
    """Its figures change; whose it is does not: another's limit is another row."""

    list_display = ["__str__", *FIGURES, "created_at"]
    list_filter = ["team"]
    list_select_related = ["team", "key"]
    search_fields = ["team__name", "key__name", "key__public_id", "model"]
    fields = ["team", "key", "model", *FIGURES]
    autocomplete_fields = ["team", "key"]

    def get_readonly_fields(self, request: Any, obj: Limit | None = None) -> Any:
        return ["team", "key", "model"] if obj is not None else []
