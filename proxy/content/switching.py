"""Whether a team's prompts and answers are stored: turned on and off by its leads, and by who may
change teams. Its members see it on their page, each answer says it, the team's history tells who
did it."""

from __future__ import annotations

from django.contrib.auth.models import User

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from proxy.editing import change_team, teams
from proxy.members import teams_led_by
from proxy.models import Team

CHANGE_TEAMS = "proxy.change_team"


def switch_content(id: int, asker: Asker, *, stored: bool, days: int | None = None) -> Team:
    """`days` for which it is kept; None leaves them as they are. Raises ManagementRefused, also for
    a team that is not the asker's to see, and ValidationError."""
    if not _may(id, asker):
        if not _sees(id, asker):
            raise ManagementRefused("not_found", f"There is no team {id}.")
        raise ManagementRefused(
            "permission_denied",
            "Only leads of the team, and who may change teams, turn this on and off.",
        )
    changes: dict[str, bool | int] = {"keeps_content": stored}
    if days is not None:
        changes["content_days"] = days
    return change_team(id, asker, changes)


def _may(id: int, asker: Asker) -> bool:
    if asker.everything or (asker.manages and asker.may(CHANGE_TEAMS)):
        return True
    if asker.key or asker.user is None:
        return False  # a program's key is not its owner
    person = User.objects.filter(pk=asker.user).first()
    return person is not None and id in teams_led_by(person)


def _sees(id: int, asker: Asker) -> bool:
    if asker.manages and asker.may("proxy.view_team"):
        return True
    own = teams().filter(memberships__user=asker.user) if asker.user is not None else teams().none()
    return not asker.key and own.filter(pk=id).exists()
