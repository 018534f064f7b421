"""The audit trail in the admin: to be searched and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from models_registry.admin.base import NOTHING, ReadOnlyAdmin
from models_registry.audit import watched
from models_registry.audit.actors import Door, Kind
from models_registry.audit.searching import ACTIONS
from models_registry.models import AuditRecord

LONGEST_SHOWN = 80
"""Characters of a value in the list."""


class _Choice(admin.SimpleListFilter):
    """What there is to choose is known: to offer what there is, all rows would have to be read."""

    def choices_known(self) -> Sequence[str]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(each, each) for each in self.choices_known()]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[AuditRecord]
    ) -> QuerySet[AuditRecord]:
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value else queryset


class ByAction(_Choice):
    title, parameter_name = "action", "action"

    def choices_known(self) -> Sequence[str]:
        return ACTIONS


class ByType(_Choice):
    title, parameter_name = "object", "object_type"

    def choices_known(self) -> Sequence[str]:
        return sorted(each.type for each in watched.all_of_them().values())


class ByDoor(_Choice):
    title, parameter_name = "door", "door"

    def choices_known(self) -> Sequence[str]:
        return [str(each) for each in Door]


class ByKind(_Choice):
    title, parameter_name = gettext_lazy("kind of actor"), "kind"

    def choices_known(self) -> Sequence[str]:
        return [str(each) for each in Kind]


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor", "action", "of", "differences", "door", "origin")
    list_filter = (ByAction, ByType, ByDoor, ByKind, "at")
    search_fields = ("actor", "object_name", "origin", "=key", "=request_id")
    search_help_text = gettext_lazy("Who, what, from where, a key's public id, or a request's id.")
    date_hierarchy = "at"
    sortable_by = ("at",)
    ordering = ("-number",)
    list_before_template = "admin/models_registry/auditrecord/exports.html"
    fields = (
        "number", "at", "actor", "kind", "user", "key", "door", "origin", "action", "of", "whole",
        "note", "request_id", "digest",
    )  # fmt: skip

    @admin.display(description=gettext_lazy("object"))
    def of(self, row: AuditRecord) -> SafeString | str:
        """A link, while it is there."""
        name = f"{row.object_type} {row.object_name}"
        url = _page_of(row)
        return format_html('<a href="{}">{}</a>', url, name) if url else name

    @admin.display(description=gettext_lazy("changes"))
    def differences(self, row: AuditRecord) -> SafeString | str:
        return _shown(row, LONGEST_SHOWN)

    @admin.display(description=gettext_lazy("changes"))
    def whole(self, row: AuditRecord) -> SafeString | str:
        return _shown(row, None)


def _page_of(row: AuditRecord) -> str:
    model = next(
        (m for m, each in watched.all_of_them().items() if each.type == row.object_type), None
    )
    if model is None or not row.object_id:
        return ""
    meta = model._meta
    try:
        return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[row.object_id])
    except NoReverseMatch:  # it has no page
        return ""


def _shown(row: AuditRecord, longest: int | None) -> SafeString | str:
    changes = json.loads(row.changes).items()
    pairs = (
        (name.replace("_", " "), _text(before, longest), _text(after, longest))
        for name, (before, after) in changes
    )
    rows = format_html_join("", "<div>{}: <del>{}</del> → {}</div>", pairs)
    return rows or row.note or NOTHING


def _text(value: Any, longest: int | None) -> str:
    if value is None or value in ("", [], {}):
        return "unset"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if longest is None or len(text) <= longest else text[:longest] + "…"
