"""What they see who ask the management API for usage: admins all, leads their teams, members their
own keys, a key its own."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from models_registry.access import Asker
from proxy.access import somebody
from proxy.members import teams_led_by
from proxy.models import ApiKey
from proxy.scopes import Scope
from proxy.usage_pages.sight import SEE_ALL, Sight


class NeedsSight:
    """ninja's `auth=`: any session, and any key of scope `read`."""

    csrf = True  # the docs page then sends the token of its session along

    def __call__(self, request: HttpRequest) -> Asker:
        asker = somebody(request)
        if asker.key and not asker.scopes & {Scope.READ, Scope.ADMIN}:
            raise PermissionDenied(f"{asker.label} lacks the scope `read`")
        return asker


def sight_of(asker: Asker) -> Sight:
    if asker.everything or (asker.manages and asker.may(SEE_ALL)):
        return Sight(everything=True)
    if asker.key:
        return Sight(keys=_line_of(asker.key))
    person = None if asker.user is None else User.objects.filter(pk=asker.user).first()
    return Sight() if person is None else sight_of_person(person)


def sight_of_person(person: User) -> Sight:
    """Of their own, and of the teams they lead: whatever else they may do."""
    own = ApiKey.objects.filter(user=person).values_list("public_id", flat=True)
    return Sight(teams=teams_led_by(person), keys=frozenset(own))


def _line_of(key: str) -> frozenset[str]:
    """A program's key, and those that it took the place of. Not its owner's others: it is given
    away, and they are not."""
    line = ApiKey.objects.filter(public_id=key).values("line")
    same = ApiKey.objects.filter(line__in=line).values_list("public_id", flat=True)
    return frozenset({key, *same})
