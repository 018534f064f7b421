"""The way to the live page, and what it is told of what the proxy counts."""

from __future__ import annotations

from collections import defaultdict

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from proxy.first_steps.steps import steps_of
from proxy.models import UsageRecord
from scheduler.live_page.views import may_look

LOOKED_AT = 200
"""The newest requests; what has not answered among these has no speed."""


def answer_speeds() -> dict[str, float]:
    """Tokens a second by preset, after the first one of each answer."""
    tokens: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    newest = UsageRecord.objects.order_by("-id").values_list(
        "preset", "stream", "answered", "duration", "first_token"
    )[:LOOKED_AT]
    for preset, streamed, answered, duration, first_token in newest:
        if not streamed or duration is None or first_token is None or duration <= first_token:
            continue  # how long it generated is not known
        if not answered or answered < 2:
            continue  # none came after the first
        tokens[preset] += answered - 1
        seconds[preset] += duration - first_token
    return {preset: tokens[preset] / seconds[preset] for preset in tokens}


def home(request: HttpRequest) -> HttpResponse:
    """Whoever may look at it gets the live page first, and before anything was ever served the
    steps that lead there; members get what is theirs. So does each who has to log in first."""
    user = request.user
    if not user.is_authenticated:
        return redirect_to_login(request.path, reverse("account:login"))
    if may_look(request):
        assert isinstance(user, User)
        return redirect("live:page" if steps_of(user).all else "account:connect")
    return redirect("admin:index" if user.is_staff else "account:home")
