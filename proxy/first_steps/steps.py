"""How far somebody has come: is there a model that they may use, a key, a request by it?"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import QuerySet

from models_registry.allowing import may_use
from models_registry.models import Preset
from proxy.members import memberships_of
from proxy.models import ApiKey, UsageRecord, usable

MOST_NAMES = 500
"""Models to choose from: another one's name is typed into the client."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done."""

    model: bool
    key: bool
    request: bool

    @property
    def all(self) -> bool:
        return self.model and self.key and self.request


def steps_of(user: User) -> Steps:
    """Who may see everybody's keys sees how far the gateway has come, others how far they have."""
    keys = keys_of(user).filter(usable())
    asked = UsageRecord.objects.filter(upstream=True, key__in=keys_of(user).values("public_id"))
    return Steps(bool(models_for(user, 1)), keys.exists(), asked.exists())


def keys_of(user: User) -> QuerySet[ApiKey]:
    """Those that have a text: the playground's are no client's."""
    rows = ApiKey.objects.order_by().filter(in_session=False)
    return rows if user.has_perm("proxy.view_apikey") else rows.filter(user=user)


def models_for(user: User, most: int = MOST_NAMES) -> list[str]:
    """By name: those on lists, of which one of their teams may use each."""
    rows = Preset.objects.filter(unlisted=False, name__gt="").order_by("name")
    if user.has_perm("models_registry.view_preset"):
        return list(rows.values_list("name", flat=True)[:most])
    teams = [tuple(each.team.allowed) for each in memberships_of(user)]
    found: list[str] = []
    for preset in rows.prefetch_related("aliases"):
        names = [preset.name, *(alias.name for alias in preset.aliases.all())]
        if any(not allowed or may_use(names, (allowed,)) for allowed in teams):
            found.append(preset.name)
            if len(found) == most:
                break
    return found
