"""Teams as somebody else says them: at each log-in, and when nothing is heard for long."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from proxy.models import Membership, Team


def belong(
    user: User, wanted: Mapping[str, str], managed: Collection[str], reason: str
) -> list[str]:
    """They are in the teams of `wanted`, each in its role, and in no other of `managed`; what is
    neither stays. Returns the names of teams that are not there."""
    with transaction.atomic():
        have = {row.team.name: row for row in _rows(user)}
        for name, row in have.items():
            if name in managed and name not in wanted:
                _told(row, reason).delete()
        teams = {team.name: team for team in Team.objects.filter(name__in=wanted)}
        for name, team in teams.items():
            old = have.get(name)
            row = old if old is not None else Membership(user=user, team=team, role="")
            if row.role != wanted[name]:
                row.role = wanted[name]
                _told(row, reason).save()
    return sorted(set(wanted) - set(teams))


def leave_all(user: User, reason: str) -> int:
    """From now on their keys are refused. They come back with the memberships."""
    with transaction.atomic():
        rows = list(_rows(user))
        for row in rows:
            _told(row, reason).delete()
    return len(rows)


def leave_who_has_not_come_for(days: int, reason: str) -> int:
    """People without a password of their own come by single sign-on: who has not done so for so
    many days may have left the house. Returns how many have left their teams."""
    long_ago = timezone.now() - timedelta(days=days)
    gone = User.objects.filter(
        password__startswith=UNUSABLE_PASSWORD_PREFIX,
        last_login__lt=long_ago,
        memberships__isnull=False,
    ).distinct()
    return sum(1 for user in gone if leave_all(user, reason))


def _rows(user: User) -> list[Membership]:
    return list(Membership.objects.select_related("team", "user").filter(user=user))


def _told(row: Membership, reason: str) -> Membership:
    row._change_reason = reason  # type: ignore[attr-defined]  # simple_history reads it
    return row
