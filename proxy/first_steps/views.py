"""The page that leads to a first answer, and afterwards tells how to connect one more client."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from models_registry.access import Asker
from proxy.account.pages import logged_in, own_page
from proxy.editing import keep_new
from proxy.first_steps.clients import clients
from proxy.first_steps.steps import models_for, steps_of
from proxy.members import add_member, members
from proxy.models import DEFAULT_TEAM, ApiKey, Membership
from proxy.scopes import USUAL

NO_KEY = "ck_…"
SUGGESTED = (
    ("ggml-org/Qwen3-0.6B-GGUF", gettext_lazy("small: runs anywhere, to try things out")),
    ("ggml-org/gemma-3-4b-it-GGUF", gettext_lazy("4 B parameters, reads pictures too")),
    ("ggml-org/gpt-oss-20b-GGUF", gettext_lazy("20 B parameters, reasons; 16 GB of memory")),
)
"""Repositories, and what each is good for."""


class FirstKeyForm(forms.Form):
    """All else about a key is on the page of one's keys."""

    name = forms.CharField(max_length=100, label=gettext_lazy("What will use it"))
    team = forms.ChoiceField(label=gettext_lazy("Team"))

    def __init__(self, memberships: list[Membership], data: Any = None) -> None:
        super().__init__(data, auto_id="first-key-%s")
        self._teams = {str(each.team_id): each.team for each in memberships}
        team: Any = self.fields["team"]
        team.choices = [(id, each.name) for id, each in self._teams.items()]
        if len(self._teams) == 1:
            team.widget = forms.HiddenInput()
            team.initial = next(iter(self._teams))
        for each in self.fields.values():
            each.widget.attrs["class"] = "corral-search"

    def clean(self) -> dict[str, Any]:
        if self.fields["team"].widget.is_hidden and (problems := self.errors.get("team")):
            self.add_error(None, list(problems))  # nobody sees it there
        return self.cleaned_data

    def key(self, user: User) -> ApiKey:
        """Unsaved."""
        team = self._teams[self.cleaned_data["team"]]
        scopes = [each for each in USUAL if each in team.member_scopes]
        return ApiKey(team=team, user=user, name=self.cleaned_data["name"], scopes=scopes)


@never_cache
@logged_in
def page(request: HttpRequest) -> HttpResponse:
    """GET: the steps. POST: make a key, which is shown this once, also in the clients' lines."""
    user = _user(request)
    memberships = list(members().filter(user=user))
    form = FirstKeyForm(memberships, request.POST or None)
    made = None
    if request.method == "POST" and form.is_valid():
        try:
            made = keep_new(form.key(user), _asker(user))
        except ValidationError as error:
            form.add_error(None, error.messages)
        else:
            form = FirstKeyForm(memberships)
    models = models_for(user)
    wanted = request.GET.get("model", "")
    model = wanted if wanted in models else next(iter(models), _("a-model"))
    base = f"{request.scheme}://{request.get_host()}"
    context = {
        "steps": steps_of(user),
        "models": models,
        "model": model,
        "base_address": base,
        "clients": clients(base, made.text if made else NO_KEY, model),
        "form": form,
        "made": made,
        "teams": memberships,
        "may_join": user.is_superuser and not memberships,
        "suggested": SUGGESTED if user.has_perm("models_registry.add_download") else (),
        "may_add": user.is_staff and user.has_perm("models_registry.add_modelfile"),
    }
    return own_page(request, "first_steps/page.html", _("Connect a client"), context)


@never_cache
@logged_in
def state(request: HttpRequest) -> HttpResponse:
    """What is done, for the page's script."""
    steps = steps_of(_user(request))
    return JsonResponse({"model": steps.model, "key": steps.key, "request": steps.request})


@require_POST
@logged_in
def join(request: HttpRequest) -> HttpResponse:
    """A superuser who is in no team leads the default one from now on: keys are a team's."""
    user = _user(request)
    if not user.is_superuser:
        raise PermissionDenied
    if not Membership.objects.filter(user=user).exists():
        role = Membership.Role.LEAD
        add_member(_asker(user), user=user.get_username(), team=DEFAULT_TEAM, role=role)
    after = request.POST.get("next")
    return HttpResponseRedirect(
        reverse(after if after == "account:playground" else "account:connect")
    )


def _asker(user: User) -> Asker:
    return Asker(user.get_username(), everything=user.is_superuser, user=user.pk)


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # login_required lets nobody else in
    return request.user
