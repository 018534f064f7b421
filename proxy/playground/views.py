"""The playground's page. Its script asks the gateway by the session (routerproj/playing.py)."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from proxy.account.pages import logged_in, own_page
from proxy.members import members
from proxy.models import Team
from proxy.playground.words import words


@logged_in
def page(request: HttpRequest) -> HttpResponse:
    user = request.user
    assert isinstance(user, User)
    teams = [each.team for each in members().filter(user=user)]
    here = reverse("account:playground")
    config = {
        "teams": [{"id": team.pk, "stored": _stored(team)} for team in teams],
        "carried": f"{here}teams/TEAM/v1",
        "waiting": reverse("account:waiting", args=["ID"]),
        "login": f"{reverse('account:login')}?next={here}",
        "words": words(),
    }
    context = {
        "teams": teams,
        "config": config,
        "languages": ("curl", "Python", "JavaScript"),
        "may_join": user.is_superuser and not teams,
    }
    return own_page(request, "playground/page.html", _("Playground"), context)


def _stored(team: Team) -> str:
    if not team.keeps_content:
        return ""
    days = team.content_days
    return ngettext(
        "Prompts and answers of the team %(team)s are stored, redacted, for %(days)s day.",
        "Prompts and answers of the team %(team)s are stored, redacted, for %(days)s days.",
        days,
    ) % {"team": team.name, "days": days}
