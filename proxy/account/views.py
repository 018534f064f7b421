"""What people do with their own keys, and leads with their teams'.

A key's text is in the answer to the POST that made it, and nowhere else: not in a message that a
session keeps, and not in what a browser may keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import views as auth
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import Case, Q, QuerySet, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from proxy.account.forms import ContentForm, KeyForm
from proxy.account.pages import logged_in
from proxy.account.second_factor import wanted
from proxy.content.switching import switch_content
from proxy.editing import keep_new, revoke_key
from proxy.limits.sight import limits_of_person
from proxy.limits.used import limits_now
from proxy.members import members, teams_led_by
from proxy.models import ApiKey, Membership
from proxy.rotation import USUAL_GRACE_HOURS, rotate_key
from proxy.scopes import OF_SUPERUSERS
from proxy.states import state_of
from proxy.usage_pages.own import own_usage

if TYPE_CHECKING:  # unfold has no stubs
    from django.contrib.auth.forms import AuthenticationForm
    from django.contrib.auth.forms import PasswordChangeForm as AdminOwnPasswordChangeForm
else:
    from unfold.forms import AdminOwnPasswordChangeForm, AuthenticationForm

KEYS_PER_PAGE = 50


class AnyonesLogin(AuthenticationForm):
    """Of whoever is active: the admin's own lets staff in only."""

    def confirm_login_allowed(self, user: Any) -> None:
        if not user.is_active:
            raise ValidationError(self.error_messages["inactive"], code="inactive")


class Login(auth.LoginView):
    authentication_form = AnyonesLogin
    template_name = "admin/login.html"
    redirect_authenticated_user = True
    next_page = "account:home"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = {**admin.site.each_context(self.request), "title": _("Log in")}
        return super().get_context_data(**context, **kwargs)


class Logout(auth.LogoutView):
    next_page = "account:login"


class Password(auth.PasswordChangeView):
    form_class = AdminOwnPasswordChangeForm
    template_name = "account/password.html"
    success_url = reverse_lazy("account:home")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = {**admin.site.each_context(self.request), "title": _("Change the password")}
        return super().get_context_data(**context, **kwargs)


@never_cache
@logged_in
def home(request: HttpRequest) -> HttpResponse:
    """GET: one's keys, and a form for a new one. POST: make it, and show it this once."""
    user = _user(request)
    form = KeyForm(_memberships(user), request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            key = keep_new(form.key(user), _asker(user))
        except ValidationError as error:
            form.told(error.message_dict)
        else:
            return _page(request, KeyForm(_memberships(user)), key)
    return _page(request, form)


@never_cache
@require_POST
@logged_in
def rotate(request: HttpRequest, public_id: str) -> HttpResponse:
    """One's own key, or a service's of a team that one leads: who rotates gets the key's text."""
    user = _user(request)
    key = _visible(user, public_id)
    if key.user not in (None, user):
        raise PermissionDenied
    try:
        new = rotate_key(public_id, _asker(user), grace_hours=_grace(request))
    except ManagementRefused as refused:
        return _page(request, KeyForm(_memberships(user)), problem=refused.message)
    except ValidationError as error:
        return _page(request, KeyForm(_memberships(user)), problem="; ".join(error.messages))
    return _page(request, KeyForm(_memberships(user)), new)


@require_POST
@logged_in
def revoke(request: HttpRequest, public_id: str) -> HttpResponse:
    """One's own key, or any of a team that one leads."""
    user = _user(request)
    revoke_key(_visible(user, public_id).public_id, _asker(user))
    return HttpResponseRedirect(reverse("account:home"))


@require_POST
@logged_in
def switch_team_content(request: HttpRequest, id: int) -> HttpResponse:
    """Of a team that one leads: its prompts and answers are stored from now on, or not."""
    user = _user(request)
    form = ContentForm(request.POST)
    if not form.is_valid():
        problem = "; ".join(map(str, form.errors["days"]))
        return _page(request, KeyForm(_memberships(user)), problem=f"Days: {problem}")
    try:
        switch_content(id, _asker(user), **form.cleaned_data)
    except ManagementRefused as refused:
        if refused.code == "not_found":
            raise Http404 from refused
        raise PermissionDenied(refused.message) from refused
    return HttpResponseRedirect(reverse("account:home"))


def _page(
    request: HttpRequest, form: KeyForm, made: ApiKey | None = None, problem: str = ""
) -> HttpResponse:
    user = _user(request)
    shown = Paginator(_keys(user), KEYS_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        **admin.site.each_context(request),
        "title": _("Your keys"),
        "made": made,
        "problem": problem,
        "form": form,
        "memberships": _memberships(user),
        "keys": [(key, state_of(key), _may_rotate(user, key)) for key in shown],
        "keys_page": shown,
        "usual_grace": USUAL_GRACE_HOURS,
        "second_factor_wanted": wanted(),
        **limits_now(limits_of_person(user)),
        **own_usage(user),
    }
    return TemplateResponse(request, "account/home.html", context)


def _keys(user: User) -> QuerySet[ApiKey]:
    """Their own, which come first, and those of the teams that they lead."""
    rows = ApiKey.objects.filter(Q(user=user) | Q(team__in=teams_led_by(user)))
    rows = rows.select_related("team", "user", "replaces")
    rows = rows.annotate(is_own=Case(When(user=user, then=0), default=1))
    return rows.prefetch_related("successors", "user__memberships", "limits").order_by(
        "is_own", "team__name", "name", "-created_at", "pk"
    )


def _visible(user: User, public_id: str) -> ApiKey:
    key = _keys(user).filter(public_id=public_id).first()
    if key is None:
        raise Http404
    return key


def _may_rotate(user: User, key: ApiKey) -> bool:
    return (
        not key.in_session
        and key.user in (None, user)
        and (user.is_superuser or OF_SUPERUSERS.isdisjoint(key.scopes))
    )


def _memberships(user: User) -> list[Membership]:
    return list(members().filter(user=user))


def _grace(request: HttpRequest) -> float:
    """In hours: either at once, or as long as usual."""
    return 0.0 if request.POST.get("grace") == "0" else USUAL_GRACE_HOURS


def _asker(user: User) -> Asker:
    """Without what staff may do besides: that is in the admin."""
    return Asker(user.get_username(), everything=user.is_superuser, user=user.pk)


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # login_required lets nobody else in
    return request.user
