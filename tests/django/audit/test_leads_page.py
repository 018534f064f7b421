"""The trail on /account/changes/: of the teams that somebody leads, and of no other."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from proxy.keys import create_key
from proxy.models import Membership, Team

pytestmark = pytest.mark.django_db

PATH = "/account/changes/"


@pytest.fixture
def lead() -> Client:
    """Of the reds, beside the blues, whose keys have names of their own."""
    create_key("red-robot", "reds")
    create_key("blue-robot", "blues")
    user = User.objects.create_user("lena", password="long enough 7")
    Membership.objects.create(user=user, team=Team.objects.get(name="reds"), role="lead")
    client = Client()
    client.force_login(user)
    return client


def test_a_lead_sees_what_was_changed_in_their_team_and_nothing_of_another(lead):
    page = lead.get(PATH).content.decode()

    assert "red-robot" in page
    assert "blue" not in page
    assert 'href="/account/changes/"' in lead.get("/account/").content.decode()


def test_a_search_finds_nothing_outside_either(lead):
    page = lead.get(PATH, {"object": "robot", "who": "", "action": "created", "page": "99"})
    other = lead.get(PATH, {"object": "blue-robot"}).content.decode()

    assert "red-robot" in page.content.decode()
    assert "<td" not in other


def test_what_people_have_written_is_escaped(lead):
    create_key("<script>alert(1)</script>", "reds")
    page = lead.get(PATH, {"who": '"><script>x</script>\0'}).content.decode()
    found = lead.get(PATH).content.decode()

    assert "<script>alert(1)" not in found
    assert "&lt;script&gt;alert(1)" in found
    assert "<script>x" not in page


@pytest.mark.parametrize("role", ["member", ""])
def test_who_leads_no_team_sees_none_of_it(role):
    user = User.objects.create_user("otto", password="long enough 7", is_staff=role == "")
    if role:
        team = Team.objects.create(name="greens")
        Membership.objects.create(user=user, team=team, role=role)
    client = Client()
    client.force_login(user)

    assert client.get(PATH).status_code == 403
    assert client.post(PATH).status_code == 405
    assert Client().get(PATH).status_code == 302
