"""Who is in which team, as people and programs look at it and change it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from proxy.models import Membership, Team


def members() -> QuerySet[Membership]:
    return Membership.objects.select_related("user", "team").order_by(
        "team__name", "user__username"
    )


def memberships_of(user: User) -> Iterable[Membership]:
    """As fetched with them, or by a query."""
    rows: QuerySet[Membership] = cast(Any, user).memberships.all()
    return rows


def teams_led_by(user: User) -> frozenset[int]:
    """The primary keys of the teams in which they are a lead."""
    return teams_led_by_id(user.pk)


def teams_led_by_id(user: int) -> frozenset[int]:
    rows = Membership.objects.filter(user=user, role=Membership.Role.LEAD)
    return frozenset(rows.values_list("team_id", flat=True))


def add_member(asker: Asker, *, user: str, team: str, role: str) -> Membership:
    """By their names. Raises ManagementRefused, and ValidationError for who is there already."""
    person = get_user_model().objects.filter(username=user).first()
    if person is None:
        raise ManagementRefused("validation_failed", f"No user is called {user!r}.", "user")
    owner = Team.objects.filter(name=team).first()
    if owner is None:
        raise ManagementRefused("validation_failed", f"No team is called {team!r}.", "team")
    row = Membership(user=person, team=owner, role=role)
    with transaction.atomic():
        row.full_clean()
        _told(row, asker)
        row.save()
    return row


def change_member(id: int, asker: Asker, changes: dict[str, Any]) -> Membership:
    """What is so already makes no version."""
    with transaction.atomic():
        row = _locked(id)
        if (role := changes.get("role", row.role)) != row.role:
            row.role = role
            row.full_clean()
            _told(row, asker)
            row.save(update_fields=["role"])
    return row


def remove_member(id: int, asker: Asker) -> None:
    """Their keys in the team are refused from now on."""
    with transaction.atomic():
        row = _locked(id)
        _told(row, asker)
        row.delete()


def _locked(id: int) -> Membership:
    row = members().select_for_update(of=("self",)).filter(pk=id).first()
    if row is None:
        raise ManagementRefused("not_found", f"There is no membership {id}.")
    return row


def _told(row: Membership, asker: Asker) -> None:
    row._change_reason = asker.label  # type: ignore[attr-defined]  # simple_history reads it
