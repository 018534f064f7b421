"""Where django-allauth says who has come, and this gateway decides what they are here."""

from __future__ import annotations

import logging
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from routerproj.sign_on.arriving import NotLetIn, let_in

logger = logging.getLogger(__name__)


class Arrivals(DefaultSocialAccountAdapter):  # type: ignore[misc]  # no types in the library
    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Always ends here: allauth's own pages and accounts have no part in it."""
        try:
            raise ImmediateHttpResponse(let_in(request, sociallogin))
        except NotLetIn as refusal:
            logger.warning("single sign-on: %s", refusal.logged)
            raise ImmediateHttpResponse(refused(request, str(refusal))) from None

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        logger.warning("single sign-on failed: %s", exception or error)
        words = _("The log-in was given up.") if error == "cancelled" else UNTRUE
        raise ImmediateHttpResponse(refused(request, words))


UNTRUE = gettext_lazy(
    "What the sign-on's provider said could not be taken: begin again. If it stays so, tell "
    "whoever runs this gateway, whose log says more."
)


def refused(request: HttpRequest, words: str | Promise, *, status: int = 403) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": _("Not let in"), "words": words}
    return TemplateResponse(request, "sign_on/refused.html", context, status=status).render()
