"""The page on which people manage their own keys."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from proxy.keys import create_key, stored_key
from proxy.models import ApiKey, Membership, Team

pytestmark = pytest.mark.django_db

KEY = re.compile(r"ck_[a-z2-7]{8}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="builders")


def somebody(name: str, team: Team | None = None, role: str = "member") -> Client:
    user = User.objects.create_user(name, password="long enough 7")
    if team is not None:
        Membership.objects.create(user=user, team=team, role=role)
    client = Client()
    client.force_login(user)
    return client


def wish(team: Team, **fields: object) -> dict[str, object]:
    return {"name": "laptop", "team": team.pk, "scopes": ["infer"], **fields}


def test_who_is_not_logged_in_is_sent_to_the_log_in(team):
    answer = Client().get("/account/")

    assert answer.status_code == 302
    assert answer["Location"] == "/account/login/?next=/account/"


def test_who_is_no_staff_logs_in_with_their_password(team):
    somebody("anna", team)
    client = Client()

    wrong = client.post("/account/login/", {"username": "anna", "password": "no"})
    right = client.post("/account/login/", {"username": "anna", "password": "long enough 7"})

    assert wrong.status_code == 200
    assert (right.status_code, right["Location"]) == (302, "/account/")
    assert client.get("/account/").status_code == 200


def test_a_key_is_made_and_its_text_is_in_that_one_answer(team):
    anna = somebody("anna", team)

    made = anna.post("/account/", wish(team, expires_in=30, allowed="qwen*\nsmollm2"))

    text = KEY.search(made.content.decode())[0]
    key = stored_key(text.encode())
    assert (key.user.username, key.team, key.allowed) == ("anna", team, ["qwen*", "smollm2"])
    assert (key.scopes, key.expires_at is not None) == (["infer"], True)
    assert "no-store" in made["Cache-Control"]
    again = anna.get("/account/").content.decode()
    assert f"ck_{key.public_id}_" in again
    assert not KEY.search(again)
    assert not any(text in str(row) for row in ApiKey.history.values())


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "x" * 1000},
        {"scopes": []},
        {"scopes": ["admin"]},
        {"scopes": ["load"]},
        {"scopes": ["root"]},
        {"team": 999_999},
        {"team": ""},
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": 10**30},
        {"allowed": "a*b"},
        {"allowed": "a\na"},
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(team, fields):
    answer = somebody("anna", team).post("/account/", {**wish(team), **fields})

    assert answer.status_code == 200
    assert not KEY.search(answer.content.decode())
    assert not ApiKey.objects.exists()


def test_nobody_makes_a_key_in_a_team_that_is_not_theirs_or_for_a_service_unless_they_lead(team):
    other = Team.objects.create(name="others")
    anna, bert = somebody("anna", team), somebody("bert", other, "lead")

    anna.post("/account/", wish(other))
    anna.post("/account/", wish(team, owner="service"))
    bert.post("/account/", wish(other, owner="service"))

    owners = {(key.team.name, key.user and key.user.username) for key in ApiKey.objects.all()}
    assert owners == {("builders", "anna"), ("others", None)}


def test_a_key_is_rotated_and_the_old_one_works_beside_it(team):
    anna = somebody("anna", team)
    old = KEY.search(anna.post("/account/", wish(team)).content.decode())[0]

    page = anna.post(f"/account/keys/{old[3:11]}/rotate/").content.decode()

    new = KEY.search(page)[0]
    assert stored_key(new.encode()).replaces.public_id == old[3:11]
    assert stored_key(old.encode()).expires_at is not None
    again = anna.post(f"/account/keys/{old[3:11]}/rotate/")
    assert "was rotated already" in again.content.decode()


def test_one_revokes_ones_own_keys_and_sees_no_others(team):
    anna, bert = somebody("anna", team), somebody("bert", team)
    key = KEY.search(anna.post("/account/", wish(team)).content.decode())[0]

    assert bert.post(f"/account/keys/{key[3:11]}/revoke/").status_code == 404
    assert bert.post(f"/account/keys/{key[3:11]}/rotate/").status_code == 404
    assert key[3:11] not in bert.get("/account/").content.decode()
    assert stored_key(key.encode()) is not None
    assert anna.post(f"/account/keys/{key[3:11]}/revoke/").status_code == 302
    assert stored_key(key.encode()) is None


def test_a_lead_revokes_and_does_not_rotate_what_is_somebody_elses(team):
    anna, lead = somebody("anna", team), somebody("lena", team, "lead")
    key = KEY.search(anna.post("/account/", wish(team)).content.decode())[0]

    assert lead.post(f"/account/keys/{key[3:11]}/rotate/").status_code == 403
    assert lead.post(f"/account/keys/{key[3:11]}/revoke/").status_code == 302
    assert stored_key(key.encode()) is None


def test_a_lead_gets_no_admin_key_out_of_a_rotation(team):
    lead = somebody("lena", team, "lead")
    robot = create_key("robot", "builders", scopes=["admin"])

    page = lead.post(f"/account/keys/{robot[3:11]}/rotate/").content.decode()

    assert not KEY.search(page)
    assert ApiKey.objects.count() == 1


def test_a_change_needs_the_token_of_its_page(team):
    somebody("anna", team)
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username="anna"))

    assert client.post("/account/", wish(team)).status_code == 403
    assert client.get("/account/keys/aaaaaaaa/revoke/").status_code == 405
    assert not ApiKey.objects.exists()


def test_who_is_in_no_team_is_told_so():
    page = somebody("anna").get("/account/").content.decode()

    assert "You are in no team" in page
