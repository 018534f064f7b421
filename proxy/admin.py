"""Teams and keys in the admin. A key's secret is shown once, as a message, when it is made."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from models_registry.admin.base import OBJECTS, badge
from models_registry.admin.history import HistoryAdmin
from proxy.keys import give_secret
from proxy.models import ApiKey, Team


@admin.register(Team)
class TeamAdmin(HistoryAdmin):
    list_display = ["name", "weight", "priority", "key_count", "created_at"]
    list_filter = ["priority"]
    search_fields = ["name"]
    readonly_fields = ["created_at"]
    formfield_overrides = OBJECTS

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        teams: QuerySet[Team] = super().get_queryset(request)
        return teams.annotate(Count("keys"))

    @admin.display(description="keys", ordering="keys__count")
    def key_count(self, team: Any) -> int:
        return int(team.keys__count)


@admin.register(ApiKey)
class ApiKeyAdmin(HistoryAdmin):
    """Its history never held the digest, so a deleted key stays deleted; and going back changes
    what people edit only, so a revoked key stays revoked."""

    can_bring_back = False
    list_display = ["name", "team", "public_id", "scope", "state", "last_used_at", "expires_at"]
    list_filter = ["team", "scope", ("revoked_at", admin.EmptyFieldListFilter)]
    list_select_related = ["team"]
    search_fields = ["name", "public_id"]
    fields = ["team", "name", "scope", "expires_at", "aliases"]
    formfield_overrides = OBJECTS
    actions = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        known = ["public_id", "created_at", "last_used_at", "revoked_at"]
        return [*self.fields, *known] if obj is not None else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        known = ["public_id", "created_at", "last_used_at", "revoked_at"] if obj is not None else []
        # A key of scope `admin` may do what a superuser may: nobody gives away more than they have.
        return known if _is_superuser(request) else [*known, "scope"]

    @admin.display(description="state")
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at is not None:
            return badge("revoked", "bad")
        if key.expires_at is not None and key.expires_at <= timezone.now():
            return badge("expired", "warn")
        return badge("in use", "good")

    def save_model(
        self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool
    ) -> None:
        text = "" if change else give_secret(obj)
        super().save_model(request, obj, form, change)
        if text:
            messages.warning(
                request, format_html("The new key, shown only this once: <code>{}</code>", text)
            )

    def before_going_back(self, request: HttpRequest, live: Any, record: Any) -> None:
        if live is not None and live.scope != record.scope and not _is_superuser(request):
            raise ValidationError("Only superusers may change a key's scope, which differs.")

    @admin.action(description="Revoke selected API keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """One save each, so that the history tells who did it."""
        keys = list(queryset.filter(revoked_at=None))
        for key in keys:
            key.revoked_at = timezone.now()
            key.save(update_fields=["revoked_at"])
        messages.success(request, f"Revoked: {len(keys)}.")


def _is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))
