"""The record in the admin: to be read, never written. Devices are in admin_devices.py."""

from __future__ import annotations

import shlex
from typing import cast

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry.admin.base import NOTHING, ReadOnlyAdmin, mebibytes, told
from models_registry.admin.memory_shown import place, tokens
from models_registry.ports import PlacementKind

from .admin_devices import DeviceLimitAdmin as DeviceLimitAdmin
from .models import DecisionRecord, InstanceRecord


@admin.register(InstanceRecord)
class InstanceRecordAdmin(ReadOnlyAdmin):
    list_display = (
        "preset", "started_at", "loaded_at", "ended_at", "reason", "exit_code", "signal", "pid",
    )  # fmt: skip
    list_filter = ("reason", ("ended_at", admin.EmptyFieldListFilter), "started_at")
    search_fields = ("preset", "words")
    date_hierarchy = "started_at"
    fields = (
        "preset", "revision", "pid", "started_at", "loaded_at", "ended_at", "reason", "exit_code",
        "signal", "placed", "memory", "last_words", "command_line", "why",
    )  # fmt: skip

    @admin.display(description=gettext_lazy("placement"))
    def placed(self, instance: InstanceRecord) -> str:
        kind = cast(PlacementKind, instance.placement) if instance.placement else None
        where = place(kind, instance.layers)
        return f"{where}, {tokens(instance.context)}" if where else NOTHING

    @admin.display(description=gettext_lazy("memory"))
    def memory(self, instance: InstanceRecord) -> SafeString | str:
        """As predicted at its start, and as it reported it."""
        predicted, actual = instance.predicted, instance.actual
        text = _("%(device)s: predicted %(predicted)s, reported %(reported)s")
        lines = (
            text
            % {
                "device": device,
                "predicted": mebibytes(predicted.get(device, 0)),
                "reported": mebibytes(actual.get(device, 0)) if actual else NOTHING,
            }
            for device in {**predicted, **actual}
        )
        return format_html_join("", "<div>{}</div>", ((line,) for line in lines)) or NOTHING

    @admin.display(description=gettext_lazy("last words"))
    def last_words(self, instance: InstanceRecord) -> SafeString | str:
        if not instance.words:
            return NOTHING
        return told(instance.words)

    @admin.display(description=gettext_lazy("command line"))
    def command_line(self, instance: InstanceRecord) -> SafeString | str:
        if not instance.argv:
            return NOTHING
        return told(shlex.join(map(str, instance.argv)))

    @admin.display(description=gettext_lazy("decisions"))
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
        return format_html_join("", '<div><a href="{}">{}</a> {}: {}</div>', rows) or NOTHING


@admin.register(DecisionRecord)
class DecisionRecordAdmin(ReadOnlyAdmin):
    list_display = ("at", "kind", "preset", "reason", "figures_told")
    list_filter = ("kind", "reason", "at")
    search_fields = ("preset",)
    date_hierarchy = "at"
    list_select_related = ()
    fields = ("at", "kind", "preset", "ran_as", "reason", "figures_told")

    @admin.display(description=gettext_lazy("figures"))
    def figures_told(self, decision: DecisionRecord) -> SafeString | str:
        pairs = sorted(decision.figures.items())
        return format_html_join("", "<div>{}: {}</div>", pairs) or NOTHING

    @admin.display(description=gettext_lazy("instance"))
    def ran_as(self, decision: DecisionRecord) -> SafeString | str:
        if decision.instance is None:
            return NOTHING
        url = reverse("admin:scheduler_instancerecord_change", args=[decision.instance.pk])
        return format_html('<a href="{}">{}</a>', url, decision.instance)
