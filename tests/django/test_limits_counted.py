"""What is left of limits: who is told of which, by the management API and on the pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from proxy.keys import create_key, stored_key
from proxy.models import ApiKey, Limit, Membership, Team
from scheduler.protocol import CounterState, ErrorBody

from .management import Manager, session_of, staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="red")


def a_key(name: str, team: Team, user: User | None = None) -> str:
    text = create_key(name, team.name)
    ApiKey.objects.filter(name=name).update(user=user)
    return text


def member(name: str, team: Team, role: str = "member") -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, team=team, role=role)
    return user


def shown(manager: Manager, query: str = "") -> set[tuple[str | None, str | None]]:
    items = manager.get(f"/limits/counted{query}").json["items"]
    return {(each["team"], each["key"]) for each in items}


def test_each_figure_is_told_with_what_is_left_and_when_it_is_back(manager, scheduler, team):
    row = Limit.objects.create(
        team=team, requests_per_minute=60, concurrent=4, tokens_per_day=1000, tokens_per_month=10
    )
    scheduler.counted = [
        CounterState(
            row.counter, 12, 0, 1, day=900, month=900, day_held=50, month_held=50,
            requests_reset=30.0,
        )
    ]  # fmt: skip

    now = datetime.now(UTC)
    [told] = manager.get("/limits/counted").json["items"]

    figures = {each.pop("figure"): each for each in told["figures"]}
    resets = {name: each.pop("resets_at") for name, each in figures.items()}
    assert (told["team"], told["key"], told["model"]) == ("red", None, "")
    assert figures == {
        "requests_per_minute": {"limit": 60, "used": 12, "remaining": 48},
        "concurrent": {"limit": 4, "used": 1, "remaining": 3},
        "tokens_per_day": {"limit": 1000, "used": 950, "remaining": 50},
        "tokens_per_month": {"limit": 10, "used": 950, "remaining": 0},
    }
    back = datetime.fromisoformat(resets["requests_per_minute"]) - now
    assert timedelta(seconds=30) <= back < timedelta(seconds=90)
    assert resets["concurrent"] is None
    assert resets["tokens_per_day"].endswith("T00:00:00Z")
    assert resets["tokens_per_month"][8:] == "01T00:00:00Z"


def test_what_nothing_was_counted_by_is_there_in_full(manager, team):
    Limit.objects.create(team=team, tokens_per_day=5)

    [told] = manager.get("/limits/counted").json["items"]

    assert told["figures"] == [
        {"figure": "tokens_per_day", "limit": 5, "used": 0, "remaining": 5, "resets_at": None}
    ]


def test_people_see_those_of_their_keys_and_teams_and_leads_of_all_their_teams_keys(
    scheduler, team
):
    blue = Team.objects.create(name="blue")
    anna, lena = member("anna", team), member("lena", team, "lead")
    keys = {
        "annas": a_key("annas", team, anna),
        "lenas": a_key("lenas", team, lena),
        "robot": a_key("robot", blue),
    }
    ids = {name: text[3:11] for name, text in keys.items()}
    for name in keys:
        Limit.objects.create(key=stored_key(keys[name].encode()), concurrent=1)
    for each in (team, blue):
        Limit.objects.create(team=each, concurrent=1)

    reds = {("red", None)}
    assert shown(Manager(client=session_of(anna))) == reds | {(None, ids["annas"])}
    assert shown(Manager(client=session_of(lena))) == reds | {
        (None, ids["annas"]),
        (None, ids["lenas"]),
    }
    assert shown(Manager(keys["lenas"])) == reds | {(None, ids["lenas"])}
    assert shown(Manager(keys["robot"])) == {("blue", None), (None, ids["robot"])}
    assert shown(Manager(keys["robot"]), "?team=red") == set()


def test_a_successor_sees_what_is_left_for_its_line(scheduler, team):
    old = stored_key(a_key("old", team).encode())
    Limit.objects.create(key=old, concurrent=1)
    new = a_key("new", team)
    ApiKey.objects.filter(name="new").update(line=old.line)

    assert shown(Manager(new)) == {(None, old.public_id)}


def test_without_a_key_or_a_session_or_its_scope_nothing_is_told(scheduler, team):
    a_key("blind", team)
    blind = create_key("blinder", "red", scopes=["infer"])

    assert Manager().get("/limits/counted").status == 401
    assert Manager(blind).get("/limits/counted").status == 403


def test_while_the_scheduler_is_away_the_api_says_so(manager, scheduler, team):
    Limit.objects.create(team=team, concurrent=1)
    scheduler.refuses = ErrorBody("scheduler_unavailable", "it does not answer", 5.0)

    refused = manager.get("/limits/counted")

    assert (refused.status, refused.code) == (503, "scheduler_unavailable")


def test_the_pages_tell_what_is_left(scheduler, team):
    boss = User.objects.create_superuser("boss")
    Membership.objects.create(user=boss, team=team)
    key = stored_key(a_key("laptop", team, boss).encode())
    row = Limit.objects.create(key=key, tokens_per_day=1000)
    Limit.objects.create(team=team, requests_per_minute=71)
    scheduler.counted = [CounterState(row.counter, 0, 0, 0, day=266, month=266)]
    client = session_of(boss)

    pages = {
        path: client.get(path).content.decode()
        for path in (
            "/account/",
            f"/admin/proxy/apikey/{key.pk}/change/",
            f"/admin/proxy/limit/{row.pk}/change/",
            f"/admin/proxy/team/{team.pk}/change/",
        )
    }

    left = {path: 'data-label="Left">734<' in page for path, page in pages.items()}
    assert list(left.values()) == [True, True, True, False]
    teams = {path: 'data-label="Left">71<' in page for path, page in pages.items()}
    assert list(teams.values()) == [True, True, False, True]


def test_without_a_scheduler_a_page_says_that_it_is_not_known(scheduler, team):
    anna = member("anna", team)
    Limit.objects.create(team=team, concurrent=1)
    scheduler.refuses = ErrorBody("scheduler_unavailable", "it does not answer", 5.0)

    page = session_of(anna).get("/account/").content.decode()

    assert "It is not known at the moment: it does not answer." in page


def test_who_may_see_a_team_and_not_its_limits_is_not_told(scheduler, team):
    Limit.objects.create(team=team, concurrent=1)
    client: Client = session_of(staff("proxy.view_team"))

    page = client.get(f"/admin/proxy/team/{team.pk}/change/")

    assert page.status_code == 200
    assert "What is left of limits" not in page.content.decode()
