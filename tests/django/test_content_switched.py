"""Leads say whether their team's prompts and answers are stored; members see it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from proxy.keys import create_key
from proxy.models import ApiKey, Membership, Team

from .management import Manager, session_of, staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="red")


def member(name: str, team: Team, role: str = "member") -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, team=team, role=role)
    return user


def stored(team: Team) -> tuple[bool, int]:
    team.refresh_from_db()
    return team.keeps_content, team.content_days


def put(manager: Manager, team: Team, **body: object) -> tuple[int, str]:
    answer = manager.ask("PUT", f"/teams/{team.pk}/content", body)
    return answer.status, "" if answer.status == 200 else answer.code


def test_a_lead_turns_it_on_and_off_by_the_management_api(scheduler, team):
    lead = Manager(client=session_of(member("lena", team, "lead")))

    on = lead.ask("PUT", f"/teams/{team.pk}/content", {"stored": True, "days": 3})
    assert on.json == {"team": "red", "stored": True, "days": 3}
    assert put(lead, team, stored=False) == (200, "")
    assert stored(team) == (False, 3)
    reasons = [each.history_change_reason for each in team.history.order_by("history_id")]
    assert reasons == [None, "lena", "lena"]
    assert put(lead, team, stored=False) == (200, "")
    assert team.history.count() == 3


def test_who_neither_leads_nor_manages_does_not(scheduler, team):
    other = Team.objects.create(name="blue")
    anna, bert = member("anna", team), member("bert", other, "lead")
    text = create_key("lenas", "red", scopes=["infer", "read"])
    ApiKey.objects.update(user=member("lena", team, "lead"))

    for asker, refused in (
        (Manager(client=session_of(anna)), (403, "permission_denied")),
        (Manager(client=session_of(bert)), (404, "not_found")),
        (Manager(text), (404, "not_found")),
        (Manager(), (401, "invalid_api_key")),
        (Manager(client=session_of(staff("proxy.view_team"))), (403, "permission_denied")),
    ):
        assert put(asker, team, stored=True) == refused
    assert stored(team) == (False, 7)


def test_who_may_change_teams_does_so_in_any(manager, scheduler, team):
    changer = Manager(client=session_of(staff("proxy.change_team")))

    assert put(changer, team, stored=True) == (200, "")
    assert put(manager, team, stored=False, days=9) == (200, "")
    assert stored(team) == (False, 9)


@pytest.mark.parametrize(
    "body", [{}, {"stored": 1}, {"stored": True, "days": 0}, {"stored": True, "days": 3651}]
)
def test_what_cannot_be_is_refused(manager, team, body):
    assert put(manager, team, **body) == (422, "validation_failed")


def test_on_the_page_a_lead_turns_it_on_and_members_see_it(scheduler, team):
    lead, anna = session_of(member("lena", team, "lead")), session_of(member("anna", team))
    path = f"/account/teams/{team.pk}/content/"
    assert "answers of the team red are not stored" in lead.get("/account/").content.decode()
    assert "answers of the team red" not in anna.get("/account/").content.decode()

    assert lead.post(path, {"stored": "on", "days": "1"}).status_code == 302
    seen = anna.get("/account/").content.decode()
    assert "answers of the team red are stored, redacted, for 1 day." in seen
    assert path not in seen
    assert anna.post(path).status_code == 403
    assert stored(team) == (True, 1)
    assert "Days:" in lead.post(path, {"stored": "on", "days": "0"}).content.decode()

    assert lead.post(path).status_code == 302
    assert stored(team) == (False, 1)


def test_the_page_does_not_tell_of_other_teams(scheduler, team):
    other = Team.objects.create(name="blue")
    lead = session_of(member("lena", team, "lead"))

    assert lead.post(f"/account/teams/{other.pk}/content/", {"stored": "on"}).status_code == 404
    assert lead.get(f"/account/teams/{team.pk}/content/").status_code == 405
