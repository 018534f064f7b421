"""The pages of the second factor: showing it, getting one, new recovery codes, and giving it up.

Getting one takes the password, and what changes one takes a code of it: a session that was left
open is not enough to lock its owner out.
"""

from __future__ import annotations

import math
from typing import Any

from django.contrib import admin
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from proxy.account import second_factor as factor
from proxy.account.forms import CodeForm, OwnPasswordForm
from proxy.account.pages import logged_in
from proxy.account.sessions import end_sessions_of

WRONG = gettext_lazy(
    "That is no code of yours at this moment. Codes of the app are good for half a minute, once."
)


@never_cache
@logged_in
def home(request: HttpRequest) -> HttpResponse:
    return _page(request)


@never_cache
@require_POST
@logged_in
def check(request: HttpRequest) -> HttpResponse:
    """A code opens this session."""
    if factor.awaits(_user(request), request.session):
        if (refusal := _without_code(request)) is not None:
            return refusal
        request.session.cycle_key()
        request.session[factor.STATE] = factor.PASSED
    return HttpResponseRedirect(_next(request))


@never_cache
@require_POST
@logged_in
def start(request: HttpRequest) -> HttpResponse:
    """Show a new secret, to who knows the password (and has shown the factor that it replaces)."""
    user = _user(request)
    if factor.device_of(user) is not None and factor.awaits(user, request.session):
        return HttpResponseRedirect(reverse("account:second-factor"))
    if user.has_usable_password():
        given = request.POST.get("password", "")
        if authenticate(request, username=user.get_username(), password=given) != user:
            return _page(request, problem=_("That is not your password."), status=403)
    return _page(request, draft=factor.begin(user))


@never_cache
@require_POST
@logged_in
def confirm(request: HttpRequest) -> HttpResponse:
    """The first code of a new secret puts it in force, and other sessions have to log in anew."""
    user = _user(request)
    if factor.device_of(user) is not None and factor.awaits(user, request.session):
        return HttpResponseRedirect(reverse("account:second-factor"))
    try:
        codes = factor.confirm(user, request.POST.get("code", ""))
    except factor.TooSoon as error:
        return _too_soon(request, error, draft=factor.begun(user))
    if codes is None:
        return _page(request, draft=factor.begun(user), problem=WRONG, status=403)
    request.session.cycle_key()
    request.session[factor.STATE] = factor.PASSED
    end_sessions_of(user, but=request.session.session_key)
    return _page(request, codes=codes)


@never_cache
@require_POST
@logged_in
def recovery(request: HttpRequest) -> HttpResponse:
    if (refusal := _without_code(request)) is not None:
        return refusal
    return _page(request, codes=factor.new_recovery_codes(_user(request)))


@never_cache
@require_POST
@logged_in
def give_up(request: HttpRequest) -> HttpResponse:
    user = _user(request)
    if factor.required(user):
        return _page(
            request, problem=_("Who may enter the admin has to have one here."), status=403
        )
    if (refusal := _without_code(request)) is not None:
        return refusal
    factor.remove(user)
    request.session.pop(factor.STATE, None)
    return HttpResponseRedirect(reverse("account:second-factor"))


def _without_code(request: HttpRequest) -> HttpResponse | None:
    """None when the code that came with it is theirs; else what to answer."""
    try:
        if factor.accepted(_user(request), request.POST.get("code", "")):
            return None
    except factor.TooSoon as error:
        return _too_soon(request, error)
    return _page(request, problem=WRONG, status=403)


def _too_soon(request: HttpRequest, error: factor.TooSoon, **context: Any) -> HttpResponse:
    seconds = max(1, math.ceil((error.until - timezone.now()).total_seconds()))
    problem = _("After a wrong code the next one has to wait: try again in %(seconds)s s.") % {
        "seconds": seconds
    }
    answer = _page(request, problem=problem, status=429, **context)
    answer["Retry-After"] = str(seconds)
    return answer


def _page(
    request: HttpRequest,
    *,
    draft: Any = None,
    codes: list[str] | None = None,
    problem: str | Promise = "",
    status: int = 200,
) -> HttpResponse:
    if not factor.wanted():
        raise Http404
    user = _user(request)
    device = factor.device_of(user)
    context = {
        **admin.site.each_context(request),
        "title": _("Second factor"),
        "awaited": factor.awaits(user, request.session),
        "required": factor.required(user),
        "device": device,
        "draft": draft,
        "secret": _secret(draft),
        "picture": _picture(draft),
        "codes": codes,
        "code_form": CodeForm(),
        "password_form": OwnPasswordForm() if user.has_usable_password() else None,
        "codes_left": factor.recovery_codes_left(user) if device else 0,
        "problem": problem,
        "next": _next(request),
    }
    return TemplateResponse(request, "account/second_factor.html", context, status=status)


def _secret(draft: Any) -> str:
    """For who types it in: in groups of four."""
    if draft is None:
        return ""
    from base64 import b32encode

    text = b32encode(draft.bin_key).decode().rstrip("=")
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def _picture(draft: Any) -> str:
    if draft is None:
        return ""
    import segno

    drawn = segno.make_qr(draft.config_url).svg_inline(
        scale=5, border=4, light="white", title=_("QR code of the secret")
    )
    return mark_safe(drawn)


def _next(request: HttpRequest) -> str:
    """Only within this site."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    hosts = {request.get_host()}
    if url_has_allowed_host_and_scheme(target, hosts, require_https=request.is_secure()):
        return target
    return reverse("account:home")


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # login_required lets nobody else in
    return request.user
