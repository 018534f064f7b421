"""Setting off to the provider, and coming back from it."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from routerproj.sign_on.adapter import UNTRUE, logger, refused
from routerproj.sign_on.conf import sign_on
from routerproj.sign_on.provider import Adapter

PROVIDER_FAILS = (OAuth2Error, RequestException, KeyError)


@never_cache
@require_POST
def begin(request: HttpRequest) -> HttpResponse:
    """A page that leads on by itself. Not a redirect: by our policy for pages a form leads to
    ourselves, and on how many hosts the provider asks people we cannot know."""
    provider = _adapter(request).get_provider()
    try:
        answer = provider.redirect(request, process="login", next_url=target(request))
    except PROVIDER_FAILS as error:
        return _failed(request, error)
    if answer.status_code != 302:
        return answer  # type: ignore[no-any-return]  # allauth has no types
    context = {
        **admin.site.each_context(request),
        "title": sign_on().name,
        "target": answer["Location"],
    }
    return TemplateResponse(request, "sign_on/leaving.html", context)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    view = OAuth2CallbackView.adapter_view(_adapter(request))
    try:
        answer: HttpResponse = view(request)
    except PROVIDER_FAILS as error:  # before the library's own net is spread
        return _failed(request, error)
    return answer


def target(request: HttpRequest) -> str | None:
    """Where to go afterwards; only within this site."""
    wanted = request.POST.get("next") or request.GET.get("next")
    hosts = {request.get_host()}
    if url_has_allowed_host_and_scheme(wanted, hosts, require_https=request.is_secure()):
        return wanted
    return None


def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.error("single sign-on: the provider does not answer as it should: %s", error)
    return refused(request, UNTRUE, status=502)


def _adapter(request: HttpRequest) -> Any:
    return Adapter(request, sign_on().issuer)
