"""Keys are shown once, when they are made: by the command or in the admin."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from proxy.keys import create_key
from proxy.models import DEFAULT_TEAM, ApiKey, Team

from .admin_forms import NO_LIMITS

pytestmark = pytest.mark.django_db

KEY = re.compile(r"ck_[a-z2-7]{8}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


def test_the_default_team_is_there_from_the_first_migration():
    assert Team.objects.filter(name=DEFAULT_TEAM).exists()


def test_the_command_prints_the_new_key_as_its_last_line():
    out = StringIO()
    call_command("createkey", "laptop", stdout=out)

    last = out.getvalue().splitlines()[-1]
    assert KEY.fullmatch(last)
    key = ApiKey.objects.get()
    assert (key.name, key.team.name, key.public_id) == ("laptop", "default", last.split("_")[1])


def test_the_command_makes_a_team_that_is_missing():
    call_command("createkey", "ci", "--team", "builders", stdout=StringIO())

    assert ApiKey.objects.get().team.name == "builders"


@pytest.mark.parametrize(
    ("name", "team"), [("", "a"), ("a", ""), ("x" * 101, "a"), ("a", "x" * 101)]
)
def test_a_name_that_cannot_be_kept_is_refused_and_nothing_is_made(name, team):
    with pytest.raises(CommandError):
        call_command("createkey", name, "--team", team, stdout=StringIO())

    assert not ApiKey.objects.exists()
    assert Team.objects.count() == 1


def test_a_second_key_of_a_name_is_made_only_when_it_is_meant():
    call_command("createkey", "laptop", stdout=StringIO())

    with pytest.raises(CommandError, match="--again"):
        call_command("createkey", "laptop", stdout=StringIO())
    assert ApiKey.objects.count() == 1

    call_command("createkey", "laptop", "--again", stdout=StringIO())
    call_command("createkey", "laptop", "--team", "builders", stdout=StringIO())
    assert ApiKey.objects.count() == 3


def test_the_name_of_a_revoked_key_is_free():
    call_command("createkey", "laptop", stdout=StringIO())
    ApiKey.objects.update(revoked_at="2026-01-01T00:00:00Z")

    call_command("createkey", "laptop", stdout=StringIO())

    assert ApiKey.objects.count() == 2


def test_no_two_keys_are_alike():
    made = {create_key("same") for _ in range(20)}

    assert len(made) == 20


def test_the_admin_shows_a_new_key_once(admin):
    team = Team.objects.get()
    add = reverse("admin:proxy_apikey_add")
    page = admin.post(
        add, {"team": team.pk, "name": "phone", "scopes": ["infer"], **NO_LIMITS}, follow=True
    )

    shown = KEY.search(page.content.decode())
    assert shown is not None
    key = ApiKey.objects.get()
    assert shown[0].split("_")[1] == key.public_id

    change = reverse("admin:proxy_apikey_change", args=[key.pk])
    for address in (change, reverse("admin:proxy_apikey_changelist")):
        again = admin.get(address).content.decode()
        assert KEY.search(again) is None
        assert key.digest not in again


def test_changing_a_key_in_the_admin_keeps_its_secret(admin):
    create_key("old")
    key = ApiKey.objects.get()
    change = reverse("admin:proxy_apikey_change", args=[key.pk])
    admin.post(change, {"team": key.team.pk, "name": "new", "scopes": ["infer"], **NO_LIMITS})

    changed = ApiKey.objects.get()
    assert (changed.name, changed.digest) == ("new", key.digest)


def test_keys_are_revoked_in_the_admin(admin):
    create_key("lost")
    key = ApiKey.objects.get()
    admin.post(
        reverse("admin:proxy_apikey_changelist"),
        {"action": "revoke", "_selected_action": [key.pk]},
    )

    assert ApiKey.objects.get().revoked_at is not None


def test_the_list_of_keys_takes_as_many_queries_however_many_there_are(
    admin, django_assert_max_num_queries
):
    for number in range(15):
        create_key(f"key {number}", f"team {number % 3}")

    with django_assert_max_num_queries(10):
        admin.get(reverse("admin:proxy_apikey_changelist"))
