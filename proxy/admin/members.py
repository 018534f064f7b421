"""Who is in which team, in the admin: on a team's page, and as a list of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from models_registry.admin.history import HistoryAdmin
from proxy.models import Membership

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _Inline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import TabularInline as _Inline


class MembersInline(_Inline):
    model = Membership
    extra = 0
    per_page = 25
    fields = ["user", "role"]
    autocomplete_fields = ["user"]
    verbose_name = "member"


@admin.register(Membership)
class MembershipAdmin(HistoryAdmin):
    list_display = ["user", "team", "role", "created_at"]
    list_filter = ["team", "role"]
    list_select_related = ["user", "team"]
    search_fields = ["user__username", "team__name"]
    fields = ["user", "team", "role"]
    autocomplete_fields = ["user"]

    def get_readonly_fields(self, request: HttpRequest, obj: Membership | None = None) -> Any:
        """Who is moved to another team leaves one and joins another: two rows, two histories."""
        return ["user", "team"] if obj is not None else []
