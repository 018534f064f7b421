"""The record in the admin: to be read, never written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import HttpRequest

from .models import DecisionRecord, InstanceRecord

if TYPE_CHECKING:  # generic for the type checker only
    _InstanceAdmin = admin.ModelAdmin[InstanceRecord]
    _DecisionAdmin = admin.ModelAdmin[DecisionRecord]
else:
    _InstanceAdmin = _DecisionAdmin = admin.ModelAdmin


class _ReadOnly:
    """What the machine knows is not edited."""

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(InstanceRecord)
class InstanceRecordAdmin(_ReadOnly, _InstanceAdmin):
    list_display = (
        "preset", "started_at", "loaded_at", "ended_at", "reason", "exit_code", "signal", "pid",
    )  # fmt: skip
    list_filter = ("reason", "started_at")
    search_fields = ("preset", "words")
    date_hierarchy = "started_at"


@admin.register(DecisionRecord)
class DecisionRecordAdmin(_ReadOnly, _DecisionAdmin):
    list_display = ("at", "kind", "preset", "reason", "figures")
    list_filter = ("kind", "reason", "at")
    search_fields = ("preset",)
    date_hierarchy = "at"
    list_select_related = ()
