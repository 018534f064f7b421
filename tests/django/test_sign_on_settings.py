"""Single sign-on's settings, and what counts without its library: tests/e2e/test_sign_on.py has the
rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.utils import timezone

from proxy.account.belonging import belong, leave_who_has_not_come_for
from proxy.account.jobs import _drop_ended_sessions, _let_go_of_absent
from proxy.models import Membership, Team
from routerproj.environment import Environment
from routerproj.sign_on.claims import claim_in, groups_in, has_second_factor
from routerproj.sign_on.conf import Given, SignOn, local_login, parse_groups, sign_on_settings

PASSWORD = "long enough 7"
RIGHT = {
    "CORRAL_OIDC_ISSUER": "https://sso.example.com/realms/team",
    "CORRAL_OIDC_CLIENT_ID": "corral",
    "CORRAL_OIDC_CLIENT_SECRET": "hush",
    "CORRAL_OIDC_GROUPS": '{"ml": "member:builders", "leads": ["lead:builders", "staff"]}',
}


def read(**changed: str) -> SignOn | None:
    return sign_on_settings(Environment({**RIGHT, **changed}))


def right() -> SignOn:
    found = read()
    assert found is not None
    return found


def test_it_is_off_without_an_issuer() -> None:
    assert read(CORRAL_OIDC_ISSUER="") is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"CORRAL_OIDC_ISSUER": "http://sso.example.com"}, "has to be https"),
        ({"CORRAL_OIDC_ISSUER": "http://127.0.0.1.evil.example"}, "has to be https"),
        ({"CORRAL_OIDC_ISSUER": "sso.example.com"}, "is no issuer's address"),
        ({"CORRAL_OIDC_ISSUER": "https://u:p@sso.example.com"}, "is no issuer's address"),
        ({"CORRAL_OIDC_ISSUER": "https://a.example/" + "x" * 200}, "cannot be kept"),
        ({"CORRAL_OIDC_CLIENT_ID": ""}, "CORRAL_OIDC_CLIENT_ID has to be"),
        ({"CORRAL_OIDC_CLIENT_SECRET": ""}, "CORRAL_OIDC_CLIENT_SECRET has to be"),
        ({"CORRAL_OIDC_CLIENT_SECRET_FILE": "/nowhere"}, "CORRAL_OIDC_CLIENT_SECRET_FILE"),
        ({"CORRAL_OIDC_SCOPES": "email"}, "has to hold openid"),
        ({"CORRAL_OIDC_GROUPS": ""}, "names no group"),
        ({"CORRAL_OIDC_GROUPS": "ml=builders"}, "a JSON object"),
        ({"CORRAL_OIDC_GROUPS": "[]"}, "a JSON object"),
        ({"CORRAL_OIDC_GROUPS": '{"ml": "builders"}'}, "write member:TEAM"),
        ({"CORRAL_OIDC_GROUPS": '{"ml": "owner:builders"}'}, "write member:TEAM"),
        ({"CORRAL_OIDC_GROUPS": '{"ml": "lead:"}'}, "write member:TEAM"),
        ({"CORRAL_OIDC_GROUPS": '{"ml": []}'}, "a text or a list"),
        ({"CORRAL_OIDC_GROUPS": '{"ml": [1]}'}, "a text or a list"),
    ],
)
def test_nonsense_stops_the_start_and_says_what_to_write(
    changed: dict[str, str], told: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=told):
        read(**changed)


def test_the_secret_may_lie_in_a_file_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the file\n")

    found = read(CORRAL_OIDC_CLIENT_SECRET_FILE=str(tmp_path / "secret"))

    assert found is not None
    assert found.client_secret == "of the file"
    assert "of the file" not in repr(found)


def test_groups_add_up_and_the_lead_wins_in_whatever_order() -> None:
    both = Given({"builders": "lead"}, frozenset({"staff"}))

    assert right().given_to(frozenset({"ml", "leads", "others"})) == both
    assert right().given_to(frozenset({"ml"})) == Given({"builders": "member"})
    assert right().given_to(frozenset({"others"})) is None
    assert right().given_to(frozenset()) is None


def test_an_open_house_lets_others_in_with_nothing() -> None:
    found = read(CORRAL_OIDC_OPEN="1")

    assert found is not None
    assert found.given_to(frozenset({"others"})) == Given()


@pytest.mark.parametrize(
    ("claims", "path", "groups"),
    [
        ({"groups": ["a", "b"]}, "groups", {"a", "b"}),
        ({"groups": "a"}, "groups", {"a"}),
        ({"groups": ["a", 1, None]}, "groups", {"a"}),
        ({"groups": {"a": True}}, "groups", set()),
        ({}, "groups", set()),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", {"a"}),
        ({"realm_access": ["roles"]}, "realm_access.roles", set()),
        ({"https://example.com/groups": ["a"]}, "https://example.com/groups", {"a"}),
    ],
)
def test_groups_are_read_where_the_provider_says_them(
    claims: dict[str, Any], path: str, groups: set[str]
) -> None:
    assert groups_in(claims, path) == groups


def test_what_is_not_there_is_not_the_same_as_nothing() -> None:
    assert claim_in({"groups": []}, "groups") == []
    assert claim_in({}, "groups") is None


def test_only_a_list_with_mfa_is_a_second_factor() -> None:
    said = [{"amr": ["pwd", "mfa"]}, {"amr": ["pwd"]}, {"amr": "mfa"}, {}]

    assert [has_second_factor(claims) for claims in said] == [True, False, False, False]


# Teams ---------------------------------------------------------------------------------


@pytest.fixture
def anna(db: None) -> User:
    user = User.objects.create_user("anna")
    user.last_login = timezone.now()
    user.save()
    return user


def test_managed_teams_are_as_told_and_others_stay(anna: User) -> None:
    for name in ("a", "b", "by hand"):
        Membership.objects.create(user=anna, team=Team.objects.create(name=name), role="member")
    versions = Membership.history.count()

    missing = belong(anna, {"a": "lead", "nowhere": "lead"}, {"a", "b", "nowhere"}, "told")

    rows = {row.team.name: row.role for row in Membership.objects.all()}
    assert (rows, missing) == ({"a": "lead", "by hand": "member"}, ["nowhere"])
    belong(anna, {"a": "lead"}, {"a", "b"}, "told")
    new = Membership.history.all()[: Membership.history.count() - versions]
    assert {(row.history_type, row.history_change_reason) for row in new} == {
        ("~", "told"),
        ("-", "told"),
    }
    assert len(new) == 2


def test_who_has_not_come_for_long_leaves_their_teams_and_nobody_else(anna: User) -> None:
    team = Team.objects.create(name="builders")
    long_ago = timezone.now() - timedelta(days=31)
    others = {
        "gone": {"last_login": long_ago},
        "never came": {"last_login": None},
        "has a password": {"last_login": long_ago, "password": "pbkdf2"},
    }
    people = [anna]
    for name, fields in others.items():
        user = User.objects.create_user(name)
        User.objects.filter(pk=user.pk).update(**fields)
        people.append(user)
    for user in people:
        Membership.objects.create(user=user, team=team, role="member")

    assert leave_who_has_not_come_for(30, "absent") == 1

    left = set(Membership.objects.values_list("user__username", flat=True))
    assert left == {"anna", "never came", "has a password"}


def test_without_single_sign_on_the_job_leaves_everybody(anna: User) -> None:
    Membership.objects.create(user=anna, team=Team.objects.create(name="b"), role="member")
    User.objects.update(last_login=timezone.now() - timedelta(days=900))

    _let_go_of_absent()

    assert Membership.objects.count() == 1


def test_sessions_that_have_ended_go_and_others_stay(db: None) -> None:
    now = timezone.now()
    for key, expires in (("old", now - timedelta(1)), ("new", now + timedelta(hours=1))):
        Session.objects.create(session_key=key, session_data="", expire_date=expires)

    _drop_ended_sessions()

    assert [row.session_key for row in Session.objects.all()] == ["new"]


# Passwords -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("whose", "staff", "member"), [("all", 302, 302), ("staff", 302, 200), ("off", 200, 200)]
)
def test_passwords_are_taken_from_whom_the_setting_says(
    settings: Any, db: None, whose: str, staff: int, member: int
) -> None:
    settings.CORRAL_LOCAL_LOGIN = whose
    if whose != "all":
        backends = [settings.AUTHENTICATION_BACKENDS[0], "proxy.account.backends.FewPasswords"]
        settings.AUTHENTICATION_BACKENDS = backends
    User.objects.create_superuser("otto", password=PASSWORD)
    User.objects.create_user("mia", password=PASSWORD)

    found = [
        Client().post("/account/login/", {"username": name, "password": PASSWORD}).status_code
        for name in ("otto", "mia")
    ]

    assert found == [staff, member]


def test_nobody_is_shut_out_by_a_slip_of_the_pen() -> None:
    off = Environment({"CORRAL_LOCAL_LOGIN": "off"})

    with pytest.raises(ImproperlyConfigured, match="nobody could log in"):
        local_login(off, None)
    assert local_login(off, right()) == "off"


# What it costs who does without ------------------------------------------------------------

LOADED = """
import sys, json
{imports}
print(json.dumps(sorted({{"allauth", "jwt", "segno"}} & sys.modules.keys())))
"""
PAGES = "import routerproj.asgi, django.urls; django.urls.reverse('account:login')"
NO_PAGES = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'routerproj.settings'; "
NO_PAGES += "django.setup()"


@pytest.mark.parametrize(
    ("imports", "variables"), [(PAGES, {}), (NO_PAGES, {**RIGHT, "CORRAL_PAGELESS": "1"})]
)
def test_nothing_of_it_is_loaded_while_it_is_off_or_where_no_page_is_shown(
    tmp_path: Path, imports: str, variables: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(imports=imports)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout) == []


def test_two_groups_of_one_name_are_one() -> None:
    assert parse_groups('{"ml": ["staff", "staff"]}')["ml"].flags == {"staff"}
