"""What a person's session counts as in a team: a key of theirs, of which there is no text.

So it is limited, recorded, shown, kept to some models and revoked like any other one of their keys.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from models_registry.access import Asker
from proxy.editing import told
from proxy.keys import NO_DIGEST, give_secret
from proxy.members import memberships_of
from proxy.models import ApiKey, Team
from proxy.scopes import USUAL, Scope
from scheduler.protocol import Refused

NAME = "playground"
SESSION = "corral.session"
"""In the scope of a request that comes by a session: asks for the public id of its person's key.
Raises Refused."""
AskKey = Callable[[], Awaitable[str]]


def session_key(user: User, team: int) -> str:
    """The public id of their key for sessions in the team with that row; made when there is none.

    Raises Refused.
    """
    key = _kept(user, team)
    if key is None:
        key = _made(user, _team_of(user, team))
    if key.revoked_at is not None:
        raise Refused(
            "permission_denied",
            "The playground was closed to you in this team: your key for it is revoked. Whoever"
            " manages keys can delete that key, and the next request makes a new one.",
        )
    return key.public_id


def _kept(user: User, team: int) -> ApiKey | None:
    """Whether they are in the team still is asked with each use, as for any key."""
    return ApiKey.objects.filter(user=user, team=team, in_session=True).first()


def _team_of(user: User, id: int) -> Team:
    for membership in memberships_of(user):
        if membership.team_id == id:
            return membership.team
    raise Refused("permission_denied", "You are not in this team: choose one of yours.")


def _made(user: User, team: Team) -> ApiKey:
    scopes = [each for each in USUAL if each in team.member_scopes]
    if Scope.INFER not in scopes:
        raise Refused(
            "permission_denied",
            f"Members of {team} may not use its models by keys of their own: whoever manages teams"
            " sets its scopes for members.",
        )
    key = ApiKey(team=team, user=user, name=NAME, scopes=scopes, in_session=True)
    give_secret(key)
    key.digest = NO_DIGEST
    told(key, Asker(user.get_username(), user=user.pk))
    try:
        with transaction.atomic():
            key.full_clean(validate_constraints=False)
            key.save()
    except IntegrityError:  # another request of theirs was faster
        if (kept := _kept(user, team.pk)) is None:
            raise
        return kept
    return key
