"""Teams and keys, as the management API makes and ends them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from proxy.keys import give_secret
from proxy.models import ApiKey, Scope, Team


def keys() -> QuerySet[ApiKey]:
    return ApiKey.objects.select_related("team").order_by("team__name", "name", "public_id")


def teams() -> QuerySet[Team]:
    return Team.objects.order_by("name")


def create_team(asker: Asker, **fields: Any) -> Team:
    team = Team(**fields)
    with transaction.atomic():
        team.full_clean()
        _told(team, asker)
        team.save()
    return team


def change_team(id: int, asker: Asker, changes: dict[str, Any]) -> Team:
    """What is so already makes no version."""
    with transaction.atomic():
        team = teams().select_for_update().filter(pk=id).first()
        if team is None:
            raise ManagementRefused("not_found", f"There is no team {id}.")
        changed = [name for name, value in changes.items() if getattr(team, name) != value]
        for name in changed:
            setattr(team, name, changes[name])
        if changed:
            team.full_clean()
            _told(team, asker)
            team.save()
    return team


def issue_key(
    asker: Asker,
    *,
    name: str,
    team: str,
    scope: str,
    expires_at: datetime | None,
    aliases: dict[str, str],
) -> ApiKey:
    """The new key, with its text as `text`. Its team must exist: a slip of the pen makes none.

    An admin key may do everything, so only those make one who may do everything themselves.
    """
    if scope == Scope.ADMIN and not asker.everything:
        raise ManagementRefused(
            "permission_denied", "Only superusers and admin keys make admin keys.", "scope"
        )
    if expires_at is not None and expires_at <= timezone.now():
        raise ManagementRefused("validation_failed", "It would have expired already.", "expires_at")
    owner = Team.objects.filter(name=team).first()
    if owner is None:
        raise ManagementRefused("validation_failed", f"No team is called {team!r}.", "team")
    key = ApiKey(team=owner, name=name, scope=scope, expires_at=expires_at, aliases=aliases)
    text = give_secret(key)
    with transaction.atomic():
        key.full_clean()
        _told(key, asker)
        key.save()
    key.text = text  # type: ignore[attr-defined]  # for this one answer
    return key


def change_key(public_id: str, asker: Asker, changes: dict[str, Any]) -> ApiKey:
    """What is so already makes no version."""
    with transaction.atomic():
        key = _locked_key(public_id)
        changed = [name for name, value in changes.items() if getattr(key, name) != value]
        for name in changed:
            setattr(key, name, changes[name])
        if changed:
            key.full_clean()
            _told(key, asker)
            key.save(update_fields=changed)
    return key


def revoke_key(public_id: str, asker: Asker) -> ApiKey:
    """From now on it is refused. A key that is revoked already stays as it is."""
    with transaction.atomic():
        key = _locked_key(public_id)
        if key.revoked_at is None:
            key.revoked_at = timezone.now()
            _told(key, asker)
            key.save(update_fields=["revoked_at"])
    return key


def _locked_key(public_id: str) -> ApiKey:
    key = keys().select_for_update(of=("self",)).filter(public_id=public_id).first()
    if key is None:
        raise ManagementRefused("not_found", f"There is no key ck_{public_id}_….")
    return key


def _told(row: Team | ApiKey, asker: Asker) -> None:
    row._change_reason = asker.label  # type: ignore[union-attr]  # simple_history reads it
