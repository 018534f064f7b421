"""The record in the admin: to be read, never written."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from .models import DecisionRecord, InstanceRecord

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _Admin = admin.ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin as _Admin

_NOTHING = "-"


class _ReadOnly(_Admin):
    """What the machine knows is not edited."""

    show_full_result_count = False  # the record grows; counting it all would slow every page
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(InstanceRecord)
class InstanceRecordAdmin(_ReadOnly):
    list_display = (
        "preset", "started_at", "loaded_at", "ended_at", "reason", "exit_code", "signal", "pid",
    )  # fmt: skip
    list_filter = ("reason", ("ended_at", admin.EmptyFieldListFilter), "started_at")
    search_fields = ("preset", "words")
    date_hierarchy = "started_at"
    fields = (
        "preset", "revision", "pid", "started_at", "loaded_at", "ended_at", "reason", "exit_code",
        "signal", "last_words", "command_line", "why",
    )  # fmt: skip

    @admin.display(description="last words")
    def last_words(self, instance: InstanceRecord) -> SafeString | str:
        if not instance.words:
            return _NOTHING
        return format_html('<div class="corral-told">{}</div>', instance.words)

    @admin.display(description="command line")
    def command_line(self, instance: InstanceRecord) -> SafeString | str:
        if not instance.argv:
            return _NOTHING
        return format_html('<div class="corral-told">{}</div>', shlex.join(map(str, instance.argv)))

    @admin.display(description="decisions")
    def why(self, instance: InstanceRecord) -> SafeString | str:
        rows = (
            (
                reverse("admin:scheduler_decisionrecord_change", args=[decision.pk]),
                f"{decision.at:%Y-%m-%d %H:%M:%S %Z}",
                decision.kind,
                decision.reason,
            )
            for decision in instance.decisions.order_by("id")[:100]
        )
        told = format_html_join("", '<div><a href="{}">{}</a> {}: {}</div>', rows)
        return told or _NOTHING


@admin.register(DecisionRecord)
class DecisionRecordAdmin(_ReadOnly):
    list_display = ("at", "kind", "preset", "reason", "figures_told")
    list_filter = ("kind", "reason", "at")
    search_fields = ("preset",)
    date_hierarchy = "at"
    list_select_related = ()
    fields = ("at", "kind", "preset", "ran_as", "reason", "figures_told")

    @admin.display(description="figures")
    def figures_told(self, decision: DecisionRecord) -> SafeString | str:
        pairs = sorted(decision.figures.items())
        return format_html_join("", "<div>{}: {}</div>", pairs) or _NOTHING

    @admin.display(description="instance")
    def ran_as(self, decision: DecisionRecord) -> SafeString | str:
        if decision.instance is None:
            return _NOTHING
        url = reverse("admin:scheduler_instancerecord_change", args=[decision.instance.pk])
        return format_html('<a href="{}">{}</a>', url, decision.instance)
