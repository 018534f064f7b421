"""Teams and keys in the admin. A key's secret is shown once, as a message, when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from proxy.keys import give_secret
from proxy.models import ApiKey, Team

if TYPE_CHECKING:  # generic for the type checker only
    _TeamAdmin = admin.ModelAdmin[Team]
    _ApiKeyAdmin = admin.ModelAdmin[ApiKey]
else:
    _TeamAdmin = _ApiKeyAdmin = admin.ModelAdmin


@admin.register(Team)
class TeamAdmin(_TeamAdmin):
    list_display = ["name", "created_at"]
    search_fields = ["name"]
    readonly_fields = ["created_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(_ApiKeyAdmin):
    list_display = ["name", "team", "public_id", "last_used_at", "expires_at", "revoked_at"]
    list_filter = ["team"]
    list_select_related = ["team"]
    search_fields = ["name", "public_id"]
    fields = ["team", "name", "expires_at"]
    actions = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        known = ["public_id", "created_at", "last_used_at", "revoked_at"]
        return [*self.fields, *known] if obj is not None else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return ["public_id", "created_at", "last_used_at", "revoked_at"] if obj is not None else []

    def save_model(
        self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool
    ) -> None:
        text = "" if change else give_secret(obj)
        super().save_model(request, obj, form, change)
        if text:
            messages.warning(request, f"The new key, shown only this once: {text}")

    @admin.action(description="Revoke selected API keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        messages.success(request, f"Revoked: {count}.")
