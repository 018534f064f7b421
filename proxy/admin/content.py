"""Prompts and answers in the admin: to be read by who has the permission, and changed by nobody."""

from __future__ import annotations

from django.contrib import admin

from models_registry.admin.base import ReadOnlyAdmin
from proxy.models import UsageContent


@admin.register(UsageContent)
class UsageContentAdmin(ReadOnlyAdmin):
    list_display = ("usage", "at", "cut")
    list_select_related = ("usage",)
    date_hierarchy = "at"
    search_fields = ("=usage__request_id", "=usage__team", "=usage__key")
    fields = ("usage", "at", "prompt", "answer", "cut")
