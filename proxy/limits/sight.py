"""Whose limits somebody may see: admins all, people those of their keys and teams, leads those of
all their teams' keys, a key its own and its team's."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from models_registry.access import Asker
from proxy.limits.editing import limits
from proxy.members import teams_led_by
from proxy.models import ApiKey, Limit, Membership

SEE_ALL = "proxy.view_limit"


def limits_seen_by(asker: Asker) -> QuerySet[Limit]:
    if asker.everything or (asker.manages and asker.may(SEE_ALL)):
        return limits()
    if asker.key:
        return limits_of_key(ApiKey.objects.get(public_id=asker.key))
    person = None if asker.user is None else User.objects.filter(pk=asker.user).first()
    return limits().none() if person is None else limits_of_person(person)


def limits_of_key(key: ApiKey) -> QuerySet[Limit]:
    """Those that it runs under, but for those of everybody."""
    return limits().filter(Q(key=key) | Q(key__line=key.line, key__line__gt="") | Q(team=key.team))


def limits_of_person(person: User) -> QuerySet[Limit]:
    """Whatever else they may do."""
    own = ApiKey.objects.filter(user=person)
    teams = Membership.objects.filter(user=person).values("team")
    return limits().filter(
        Q(key__in=own)
        | Q(key__line__in=own.exclude(line="").values("line"))
        | Q(key__team__in=teams_led_by(person))
        | Q(team__in=teams)
    )
