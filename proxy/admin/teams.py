"""Teams in the admin, with the people in them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry.admin.base import with_code
from proxy.admin.fields import NamesField, scopes_field
from proxy.admin.limits import LimitedAdmin, LimitsInline
from proxy.admin.members import MembersInline
from proxy.limits.editing import limits
from proxy.models import FOR_MEMBERS, ApiKey, Limit, Membership, Team


@admin.register(Team)
class TeamAdmin(LimitedAdmin):
    list_display = ["name", "weight", "priority", "key_count", "member_count", "created_at"]
    list_filter = ["priority"]
    search_fields = ["name"]
    fields = [
        "name", "weight", "priority", "allowed", "aliases", "member_scopes", "keeps_content",
        "content_days", "created_at",
    ]  # fmt: skip
    readonly_fields = ["created_at"]
    inlines = [MembersInline, LimitsInline]

    def limits_shown(self, row: Team) -> QuerySet[Limit]:
        return limits().filter(team=row)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        teams: QuerySet[Team] = super().get_queryset(request)
        return teams.annotate(keys__count=_count(ApiKey), memberships__count=_count(Membership))

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        helped = with_code(str(db_field.help_text))
        told = {"label": db_field.verbose_name.capitalize(), "help_text": helped}
        match db_field.name:
            case "allowed":
                return NamesField(
                    **{
                        **told,
                        "help_text": with_code(_("%(ALLOWED)s Empty: all.") % {"ALLOWED": ALLOWED}),
                    }
                )
            case "member_scopes":
                return scopes_field(FOR_MEMBERS, **told)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    @admin.display(description=gettext_lazy("keys"), ordering="keys__count")
    def key_count(self, team: Any) -> int:
        return int(team.keys__count)

    @admin.display(description=gettext_lazy("members"), ordering="memberships__count")
    def member_count(self, team: Any) -> int:
        return int(team.memberships__count)


def _count(model: type[ApiKey] | type[Membership]) -> Any:
    """Counted apart: joined, each key would be counted for each member first."""
    own = model._default_manager.filter(team=OuterRef("pk")).order_by().values("team")
    return Coalesce(Subquery(own.annotate(count=Count("pk")).values("count")), 0)


ALLOWED = gettext_lazy(
    "Names of presets or aliases that its keys may use, one on each line; with * at the end all "
    "that begin so."
)
