"""A member's own usage, as a page of theirs includes it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from proxy.keys import create_key
from proxy.models import ApiKey, Membership, Team
from proxy.usage_pages.own import own_usage

from .recorded import NOON, a_request, recorded
from .test_page import section, table

pytestmark = pytest.mark.django_db


@pytest.fixture
def anna() -> User:
    """A lead, with a key."""
    person = User.objects.create_user("anna")
    team = Team.objects.get(name="default")
    Membership.objects.create(user=person, team=team, role="lead")
    create_key("laptop")
    ApiKey.objects.filter(name="laptop").update(user=person)
    return person


def key_of(person: User) -> str:
    return str(ApiKey.objects.get(user=person).public_id)


def test_it_is_of_this_month_and_of_ones_own_keys_alone(anna: User) -> None:
    key = key_of(anna)
    recorded(
        a_request(key=key),
        a_request(key=key, at=NOON.replace(day=1, hour=0, minute=0), preset="beta"),
        a_request(key=key, at=NOON.replace(day=1, hour=0) - timedelta(hours=1)),
        a_request(key="notmykey", team_id=Team.objects.get(name="default").pk),
    )

    page = render_to_string("usage/own.html", own_usage(anna, NOON))

    assert "Usage in January 2030" in page
    assert [row[:2] for row in table(section(page, "tokens-by-key"), 0)] == [
        [f"laptop ({key})", "220"]
    ]
    assert table(section(page, "requests"), 1) == [
        ["2030-01-01", "1", "0", "0"],
        ["2030-01-31", "1", "0", "0"],
    ]
    assert "notmykey" not in page


def test_who_has_no_key_has_used_nothing() -> None:
    page = render_to_string("usage/own.html", own_usage(User.objects.create_user("new"), NOON))

    assert page.count("Nothing in this time.") == 3


def test_a_key_is_called_what_its_owner_calls_it_and_no_markup(anna: User) -> None:
    ApiKey.objects.filter(user=anna).update(name="<b>mine</b>")
    recorded(a_request(key=key_of(anna)))

    page = render_to_string("usage/own.html", own_usage(anna, NOON))

    assert "<b>mine" not in page


def test_the_first_moment_of_a_month_has_a_page(anna: User, settings: Any) -> None:
    first = NOON.replace(day=1, hour=0, minute=0)

    for now in (first, first + timedelta(seconds=1)):
        assert render_to_string("usage/own.html", own_usage(anna, now))


def test_a_member_sees_their_own_over_any_time_and_a_lead_their_team(anna: User) -> None:
    now = timezone.now()
    team = Team.objects.get(name="default")
    ben = User.objects.create_user("ben")
    create_key("phone")
    ApiKey.objects.filter(name="phone").update(user=ben)
    recorded(
        a_request(at=now, key=key_of(ben), team_id=team.pk, preset="mine"),
        a_request(at=now, key="somebody", team_id=team.pk, preset="of the team"),
        a_request(at=now, key="stranger", team="others", team_id=77, preset="of others"),
    )

    pages = {}
    for person in (anna, ben):
        client = Client()
        client.force_login(person)
        answer = client.get("/account/usage/", {"period": "week"})
        pages[person] = answer.content.decode()

    assert [row[0] for row in table(section(pages[anna], "tokens-by-model"), 0)] == [
        "mine",
        "of the team",
    ]
    assert [row[0] for row in table(section(pages[ben], "tokens-by-model"), 0)] == ["mine"]
    assert 'aria-current="true">7 days' in pages[ben]
    assert Client().get("/account/usage/").status_code == 302
