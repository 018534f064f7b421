"""What somebody's own keys have used, and the teams that they lead, over any time."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from proxy.account.pages import logged_in
from proxy.models import Team
from proxy.usage_pages.askers import sight_of_person
from proxy.usage_pages.page import Wish, usage_page


@never_cache
@logged_in
def usage(request: HttpRequest) -> HttpResponse:
    assert isinstance(request.user, User)  # login_required lets nobody else in
    sight = sight_of_person(request.user)
    context = {
        **usage_page(Wish.of(request.GET.dict()), sight),
        **admin.site.each_context(request),
        "title": _("Your usage"),
        "teams": Team.objects.filter(pk__in=sight.teams).values_list("name", flat=True),
    }
    return TemplateResponse(request, "usage/member.html", context)
