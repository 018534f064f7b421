"""Where a request of the playground's stands while nothing has come of it, in words."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from proxy.account.pages import logged_in
from proxy.members import memberships_of
from scheduler.describing import explained
from scheduler.live_page.words import holdup_words, lasting
from scheduler.protocol import Explained, Refused


@never_cache
@logged_in
def waiting(request: HttpRequest, request_id: str) -> HttpResponse:
    """`told` is empty for what neither waits nor is answered; and for what is not of a team of
    theirs, as if it were not there."""
    try:
        found = explained(request_id)
    except Refused:
        return JsonResponse({"told": ""})
    teams = {each.team.name for each in memberships_of(request.user)}  # type: ignore[arg-type]
    return JsonResponse({"told": told(found) if found.tenant in teams else ""})


def told(found: Explained) -> str:
    """Nothing of what others have asked for."""
    if found.state != "waiting":
        return _("The model reads the prompt.")
    parts = [_("Waits for %(time)s") % {"time": lasting(found.waited)}]
    if found.position is not None:
        parts.append(_("place %(place)s for this model") % {"place": found.position})
    if found.turn:
        parts.append(_("its model's turn to be loaded: %(turn)s") % {"turn": found.turn})
    if found.holdup is not None:
        parts.append(holdup_words(found.holdup))
    if found.seconds is not None:
        parts.append(_("about %(time)s more") % {"time": lasting(found.seconds)})
    return "; ".join(parts) + "."
