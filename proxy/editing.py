"""Teams and keys, as the management API makes and ends them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from proxy.keys import give_secret
from proxy.models import ApiKey, Team
from proxy.scopes import OF_SUPERUSERS


def keys() -> QuerySet[ApiKey]:
    rows = ApiKey.objects.select_related("team", "user", "replaces")
    return rows.order_by("team__name", "name", "public_id")


def teams() -> QuerySet[Team]:
    return Team.objects.order_by("name")


def create_team(asker: Asker, **fields: Any) -> Team:
    team = Team(**fields)
    with transaction.atomic():
        team.full_clean()
        told(team, asker)
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
            told(team, asker)
            team.save()
    return team


def delete_team(id: int, asker: Asker) -> None:
    """With its keys and memberships: who waits with one of its keys is refused."""
    with transaction.atomic():
        team = teams().select_for_update().filter(pk=id).first()
        if team is None:
            raise ManagementRefused("not_found", f"There is no team {id}.")
        told(team, asker)
        team.delete()


def issue_key(
    asker: Asker, *, name: str, team: str, user: str | None, scopes: list[str], **fields: Any
) -> ApiKey:
    """The new key, with its text as `text`. Its team must exist: a slip of the pen makes none.

    An admin key may do everything, so only those make one who may do everything themselves.
    """
    refuse_admin_keys(scopes, asker)
    key = ApiKey(team=_team(team), name=name, user=_person(user), scopes=scopes, **fields)
    return keep_new(key, asker)


def keep_new(key: ApiKey, asker: Asker) -> ApiKey:
    """It gets its secret and is saved; its text is `text`. Raises ValidationError too."""
    refuse_the_past(key.expires_at)
    text = give_secret(key)
    with transaction.atomic():
        key.full_clean()
        told(key, asker)
        key.save()
    key.text = text
    return key


def change_key(public_id: str, asker: Asker, changes: dict[str, Any]) -> ApiKey:
    """What is so already makes no version. Who may not make an admin key changes none."""
    with transaction.atomic():
        key = locked_key(public_id)
        refuse_admin_keys([*key.scopes, *changes.get("scopes", ())], asker)
        if "team" in changes:
            changes = {**changes, "team": _team(changes["team"])}
        changed = [name for name, value in changes.items() if getattr(key, name) != value]
        if "expires_at" in changed:
            refuse_the_past(changes["expires_at"])
        for name in changed:
            setattr(key, name, changes[name])
        if changed:
            key.full_clean()
            told(key, asker)
            key.save(update_fields=changed)
    return key


def revoke_key(public_id: str, asker: Asker) -> ApiKey:
    """From now on it is refused. A key that is revoked already stays as it is."""
    with transaction.atomic():
        key = locked_key(public_id)
        if key.revoked_at is None:
            key.revoked_at = timezone.now()
            told(key, asker)
            key.save(update_fields=["revoked_at"])
    return key


def locked_key(public_id: str) -> ApiKey:
    """In a transaction. Raises ManagementRefused."""
    key = keys().select_for_update(of=("self",)).filter(public_id=public_id).first()
    if key is None:
        raise ManagementRefused("not_found", f"There is no key ck_{public_id}_….")
    return key


def refuse_admin_keys(scopes: Iterable[str], asker: Asker) -> None:
    """Raises ManagementRefused for scopes beyond a team to who may not do everything."""
    if OF_SUPERUSERS.intersection(scopes) and not asker.everything:
        raise ManagementRefused(
            "permission_denied",
            "Only superusers and admin keys make keys with the scopes metrics and admin.",
            "scopes",
        )


def refuse_the_past(expires_at: datetime | None) -> None:
    """Raises ManagementRefused."""
    if expires_at is not None and expires_at <= timezone.now():
        raise ManagementRefused("validation_failed", "It would have expired already.", "expires_at")


def told(row: Team | ApiKey, asker: Asker) -> None:
    """Say in the history of changes who it was."""
    row._change_reason = asker.label  # type: ignore[union-attr]  # simple_history reads it


def _team(name: str) -> Team:
    team = Team.objects.filter(name=name).first()
    if team is None:
        raise ManagementRefused("validation_failed", f"No team is called {name!r}.", "team")
    return team


def _person(name: str | None) -> User | None:
    if name is None:
        return None
    person = get_user_model().objects.filter(username=name).first()
    if person is None:
        raise ManagementRefused("validation_failed", f"No user is called {name!r}.", "user")
    return person
