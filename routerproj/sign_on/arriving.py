"""Who comes by single sign-on: whose account it is, and what their groups make of it."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from proxy.account import second_factor
from proxy.account.belonging import belong, leave_all
from proxy.account.sessions import end_sessions_of
from routerproj.sign_on.claims import groups_in, has_second_factor
from routerproj.sign_on.conf import Given, sign_on

logger = logging.getLogger(__name__)

REASON = "single sign-on"


class NotLetIn(Exception):
    """The message is for who is at the door; `logged` for who runs it."""

    def __init__(self, message: str, logged: str) -> None:
        super().__init__(message)
        self.logged = logged


def let_in(request: HttpRequest, arrival: Any) -> HttpResponse:
    """Log them in and lead them on. Raises NotLetIn."""
    who = f"{arrival.account.uid!r} ({arrival.claims.get('preferred_username')!r})"
    user: User | None = arrival.user if arrival.is_existing else None
    if user is not None and not user.is_active:
        raise NotLetIn(
            _(
                "Your account here has been made inactive. "
                "Whoever runs this gateway can change that."
            ),
            f"{who} is the inactive account {user.get_username()!r}",
        )
    given = sign_on().given_to(groups_in(arrival.claims, sign_on().groups_claim))
    if given is None:
        _shut_out(user)
        raise NotLetIn(
            _("You are in none of the groups that may use this gateway."),
            f"{who} is in none of the groups of CORRAL_OIDC_GROUPS, as the claim "
            f"{sign_on().groups_claim!r} says",
        )
    if user is None:
        user = _new_account(request, arrival, who)
    _apply(user, given)
    login(request, user, backend=settings.AUTHENTICATION_BACKENDS[-1])
    if has_second_factor(arrival.claims):
        request.session[second_factor.STATE] = second_factor.PASSED
    return HttpResponseRedirect(arrival.state.get("next") or reverse("account:home"))


def _new_account(request: HttpRequest, arrival: Any, who: str) -> User:
    """Of a name and an address that nobody here has: nobody's account is taken over."""
    said = str(arrival.claims.get("preferred_username") or arrival.claims.get("email") or "")
    name = User.normalize_username(said)  # as it will be kept: letters that look alike are one
    email = str(arrival.claims.get("email") or "")
    users = get_user_model().objects
    same_email = bool(email) and users.filter(email__iexact=email).exists()
    if same_email or users.filter(username__iexact=name).exists():
        raise NotLetIn(
            _(
                "There is an account of your name or address here, which is not taken over. "
                "Whoever runs this gateway can say that it is yours."
            ),
            f"{who} comes for the first time, and has the name or address of another account. If "
            f"it is theirs: manage.py linkaccount USERNAME {arrival.account.uid}",
        )
    user = arrival.user
    user.username, user.email = name, email
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.full_clean(exclude=["password"])
            arrival.save(request)
    except (ValidationError, IntegrityError) as error:
        raise NotLetIn(
            _("No account could be made of what the sign-on's provider says of you."),
            f"no account for {who}: {error}",
        ) from error
    logger.info("single sign-on: the account %r was made for %s", name, who)
    return user  # type: ignore[no-any-return]  # allauth has no types


def _apply(user: User, given: Given) -> None:
    missing = belong(user, given.teams, sign_on().teams, REASON)
    if missing:
        logger.error(
            "single sign-on: CORRAL_OIDC_GROUPS names teams that are not there: %s", missing
        )
    if sign_on().gives_flags:
        _flag(user, given.flags)


def _flag(user: User, flags: frozenset[str]) -> None:
    """A superuser may enter the admin, of course."""
    user.is_superuser = "superuser" in flags
    user.is_staff = bool(flags)
    user.save(update_fields=["is_superuser", "is_staff"])


def _shut_out(user: User | None) -> None:
    """Who was let in once and is in no group any more: no team, so no key; no session; and no right
    that a group gave."""
    if user is None:
        return
    left = leave_all(user, REASON)
    if sign_on().gives_flags:
        _flag(user, frozenset())
    ended = end_sessions_of(user)
    logger.warning(
        "single sign-on: %r has left %d teams, and %d sessions ended",
        user.get_username(), left, ended,
    )  # fmt: skip
