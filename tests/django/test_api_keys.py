"""Teams and keys: made and ended by programs, and a key's text shown once."""

from __future__ import annotations

import re

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError

from proxy.keys import stored_key
from proxy.models import ApiKey, Team

from .management import Manager

pytestmark = pytest.mark.django_db

TEXT = re.compile(r"ck_[a-z2-7]{8}_[A-Za-z0-9_-]{43}")


def test_a_new_keys_text_is_shown_once(manager):
    made = manager.post("/keys", {"name": "laptop", "expires_at": "2100-01-01T00:00:00+02:00"})

    assert (made.status, made.json["scopes"], made.json["team"]) == (
        201,
        ["infer", "read"],
        "default",
    )
    assert made.json["expires_at"] == "2099-12-31T22:00:00Z"
    assert TEXT.fullmatch(made.json["key"])
    assert stored_key(made.json["key"].encode()).name == "laptop"
    listed = manager.get("/keys")
    assert "laptop" in listed.text
    assert TEXT.search(listed.text) is None


def test_no_answer_is_kept_by_a_cache(manager):
    for answer in (manager.post("/keys", {"name": "a"}), manager.get("/keys"), manager.get("/x")):
        assert answer.headers["Cache-Control"] == "no-store"


def test_no_answer_holds_a_digest(manager):
    made = manager.post("/keys", {"name": "a"})
    digests = list(ApiKey.objects.values_list("digest", flat=True))

    assert not any(digest in made.text + manager.get("/keys").text for digest in digests)
    told = manager.get("/openapi.json").json["components"]["schemas"]
    assert [name for name in told if "digest" in str(told[name])] == ["AuditOut"]  # of its chain


def test_an_admin_key_made_here_manages(manager):
    made = manager.post("/keys", {"name": "second", "scopes": ["admin"]})

    assert Manager(made.json["key"]).get("/keys").json["count"] == 2


def test_a_revoked_key_is_refused_at_once_and_stays_listed(manager):
    made = manager.post("/keys", {"name": "second", "scopes": ["admin"]}).json
    path = f"/keys/{made['public_id']}/revoke"

    revoked = manager.post(path).json

    assert Manager(made["key"]).get("/keys").status == 401
    assert manager.post(path).json == revoked
    assert [row["name"] for row in manager.get("/keys?revoked=true").json["items"]] == ["second"]
    assert [row["name"] for row in manager.get("/keys?revoked=false").json["items"]] == ["robot"]


def test_a_key_that_is_not_there_cannot_be_revoked(manager):
    assert manager.post("/keys/aaaaaaaa/revoke").code == "not_found"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({}, "name"),
        ({"name": "a", "team": "nobody"}, "team"),
        ({"name": "a", "scopes": ["root"]}, "scopes"),
        ({"name": "a", "scopes": []}, "scopes"),
        ({"name": "a", "scopes": ["read", "read"]}, "scopes"),
        ({"name": "a", "scopes": "read"}, "scopes"),
        ({"name": "a", "allowed": ["a*b"]}, "allowed"),
        ({"name": "a", "allowed": [""]}, "allowed"),
        ({"name": "a", "allowed": ["a", "a"]}, "allowed"),
        ({"name": "a", "allowed": ["a"] * 65}, "allowed"),
        ({"name": "a", "user": "nobody"}, "user"),
        ({"name": "a", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"name": "a", "expires_at": "2100-01-01"}, "expires_at"),
        ({"name": "a", "expires_at": "2100-01-01T00:00:00"}, "expires_at"),
        ({"name": "a", "expires_at": "9999-12-31T23:59:59-14:00"}, "expires_at"),
        ({"name": "a", "expires_at": 4_000_000_000}, "expires_at"),
    ],
)
def test_a_key_that_cannot_be_is_refused_at_its_field(manager, body, field):
    answer = manager.post("/keys", body)

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)
    assert (ApiKey.objects.count(), Team.objects.count()) == (1, 1)


def test_a_team_is_made_once(manager):
    assert manager.post("/teams", {"name": "builders"}).status == 201
    assert manager.post("/teams", {"name": "builders"}).param == "name"
    assert manager.post("/keys", {"name": "ci", "team": "builders"}).json["team"] == "builders"
    assert [row["name"] for row in manager.get("/keys?team=builders").json["items"]] == ["ci"]


def test_how_a_team_stands_in_the_queue_is_edited_and_kept_in_its_history(manager):
    made = manager.post("/teams", {"name": "builders", "weight": 2, "priority": "low"}).json
    assert (made["weight"], made["priority"]) == (2.0, "low")

    changed = manager.patch(f"/teams/{made['id']}", {"priority": "high"})

    assert (changed.status, changed.json["weight"], changed.json["priority"]) == (200, 2.0, "high")
    newest, oldest = Team.objects.get(name="builders").history.all()
    assert (oldest.priority, newest.priority) == ("low", "high")
    assert newest.history_change_reason.startswith("the admin key robot")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"weight": 0}', "weight"),
        (b'{"weight": -1}', "weight"),
        (b'{"weight": 1000.1}', "weight"),
        (b'{"weight": NaN}', "weight"),
        (b'{"weight": Infinity}', "weight"),
        (b'{"weight": "2"}', "weight"),
        (b'{"weight": null}', "weight"),
        (b'{"weight": true}', "weight"),
        (b'{"priority": "urgent"}', "priority"),
        (b'{"priority": null}', "priority"),
        (b'{"name": "other"}', "name"),
    ],
)
def test_how_no_team_can_stand_is_refused_at_its_field(manager, body, field):
    answer = manager.patch("/teams/1", body)

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)
    assert Team.objects.get().weight == 1.0


def test_a_team_that_is_not_there_cannot_be_changed(manager):
    assert manager.patch("/teams/999", {"weight": 2}).code == "not_found"


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_that_is_no_share_passes_no_check(weight):
    with pytest.raises(ValidationError, match="number from"):
        Team(name="odd", weight=weight).full_clean()
    with pytest.raises(IntegrityError):
        Team.objects.create(name="odd", weight=weight)


def test_the_command_makes_an_admin_key(scheduler, capsys):
    call_command("createkey", "robot", "--admin")

    assert Manager(capsys.readouterr().out.splitlines()[-1]).get("/keys").status == 200


def test_the_command_makes_keys_for_inference_otherwise(capsys):
    call_command("createkey", "app")

    assert Manager(capsys.readouterr().out.splitlines()[-1]).get("/keys").status == 403
