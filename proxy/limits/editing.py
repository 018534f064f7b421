"""Limits, as the management API makes, changes and ends them."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from proxy.models import ApiKey, Limit, Team


def limits() -> QuerySet[Limit]:
    return Limit.objects.select_related("team", "key").order_by("pk")


def add_limit(
    asker: Asker, *, team: str | None, key: str | None, model: str, **figures: int | None
) -> Limit:
    """Of a team by its name, of a key by its public id. Raises ManagementRefused, and
    ValidationError."""
    row = Limit(team=_team(team), key=_key(key), model=model, **figures)
    with transaction.atomic():
        row.full_clean()
        _told(row, asker)
        row.save()
    return row


def change_limit(id: int, asker: Asker, changes: dict[str, int | None]) -> Limit:
    """What is so already makes no version."""
    with transaction.atomic():
        row = _locked(id)
        changed = [name for name, value in changes.items() if getattr(row, name) != value]
        for name in changed:
            setattr(row, name, changes[name])
        if changed:
            row.full_clean()
            _told(row, asker)
            row.save(update_fields=changed)
    return row


def remove_limit(id: int, asker: Asker) -> None:
    with transaction.atomic():
        row = _locked(id)
        _told(row, asker)
        row.delete()


def _team(name: str | None) -> Team | None:
    if name is None:
        return None
    team = Team.objects.filter(name=name).first()
    if team is None:
        raise ManagementRefused("validation_failed", f"No team is called {name!r}.", "team")
    return team


def _key(public_id: str | None) -> ApiKey | None:
    if public_id is None:
        return None
    key = ApiKey.objects.filter(public_id=public_id).first()
    if key is None:
        raise ManagementRefused("validation_failed", f"There is no key ck_{public_id}_….", "key")
    return key


def _locked(id: int) -> Limit:
    row = limits().select_for_update(of=("self",)).filter(pk=id).first()
    if row is None:
        raise ManagementRefused("not_found", f"There is no limit {id}.")
    return row


def _told(row: Limit, asker: Asker) -> None:
    row._change_reason = asker.label  # type: ignore[attr-defined]  # simple_history reads it
