"""A key's successor takes over what the key is, and both work until the grace ends; whose keys they
are decides whether they work."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from proxy.keys import create_key, give_secret, stored_key
from proxy.models import ApiKey, Limit, Membership, Team

from .management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.each_database]


@pytest.fixture
def old() -> str:
    text = create_key("ci", "builders", scopes=["infer", "load"])
    key = ApiKey.objects.get(name="ci")
    ApiKey.objects.filter(pk=key.pk).update(allowed=["qwen*"])
    Limit.objects.create(key=key, requests_per_minute=3)
    return text


def rotated(manager: Manager, old: str, **body: object) -> dict:
    answer = manager.post(f"/keys/{old[3:11]}/rotate", body)
    assert answer.status == 201, answer.text
    return answer.json


def test_the_successor_takes_over_all_and_both_work(manager, old):
    made = rotated(manager, old)

    new, before = stored_key(made["key"].encode()), stored_key(old.encode())
    assert (new.name, new.team.name, new.scopes, new.allowed) == (
        "ci", "builders", ["infer", "load"], ["qwen*"],
    )  # fmt: skip
    assert (new.line, made["replaces"]) == (before.public_id, before.public_id)
    assert [limit.requests_per_minute for limit in new.limits.all()] == [3]
    left = before.expires_at - timezone.now()
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)


def test_without_a_grace_the_old_one_ends_at_once(manager, old):
    made = rotated(manager, old, grace_hours=0)

    assert stored_key(old.encode()) is None
    assert stored_key(made["key"].encode()) is not None


def test_a_grace_lengthens_no_life(manager, old):
    ends = timezone.now() + timedelta(hours=1)
    ApiKey.objects.filter(name="ci").update(expires_at=ends)

    rotated(manager, old, grace_hours=100)

    assert stored_key(old.encode()).expires_at == ends


def test_a_key_is_rotated_once_until_its_successor_is_revoked(manager, old):
    made = rotated(manager, old)
    path = f"/keys/{old[3:11]}/rotate"

    assert manager.post(path, {}).code == "conflict"
    manager.post(f"/keys/{made['public_id']}/revoke")
    assert manager.post(path, {}).status == 201


@pytest.mark.parametrize(
    "body",
    [
        {"grace_hours": -1},
        {"grace_hours": 1e9},
        {"grace_hours": "soon"},
        {"expires_at": "2001-01-01T00:00:00Z"},
    ],
)
def test_a_rotation_that_cannot_be_is_refused_at_its_field(manager, old, body):
    answer = manager.post(f"/keys/{old[3:11]}/rotate", body)

    assert (answer.status, answer.param) == (422, next(iter(body)))
    assert ApiKey.objects.filter(name="ci").count() == 1


def test_the_command_rotates_too(old, capsys):
    call_command("rotatekey", old[3:11], "--grace", "1")

    assert stored_key(capsys.readouterr().out.splitlines()[-1].encode()).name == "ci"
    with pytest.raises(CommandError, match="rotated already"):
        call_command("rotatekey", old[3:11])
    with pytest.raises(CommandError, match="no key"):
        call_command("rotatekey", "nothing")


@pytest.fixture
def annas() -> str:
    team = Team.objects.create(name="builders")
    anna = User.objects.create_user("anna")
    Membership.objects.create(user=anna, team=team)
    key = ApiKey(team=team, user=anna, name="laptop")
    text = give_secret(key)
    key.full_clean()
    key.save()
    return text


def test_a_persons_key_works_while_they_are_active_and_in_the_team(annas):
    anna, team = User.objects.get(), Team.objects.get(name="builders")
    assert stored_key(annas.encode())

    User.objects.update(is_active=False)
    assert stored_key(annas.encode()) is None
    User.objects.update(is_active=True)
    Membership.objects.all().delete()
    assert stored_key(annas.encode()) is None
    Membership.objects.create(user=anna, team=team)
    assert stored_key(annas.encode())
    anna.delete()
    assert not ApiKey.objects.exists()


def test_a_member_of_two_teams_has_keys_in_both_and_a_key_goes_only_where_they_are(manager, annas):
    other = Team.objects.create(name="others")
    path = f"/keys/{annas[3:11]}"
    assert manager.patch(path, {"team": "others"}).param == "user"

    Membership.objects.create(user=User.objects.get(username="anna"), team=other)

    assert manager.patch(path, {"team": "others"}).json["team"] == "others"
    assert stored_key(annas.encode()).team == other


def test_members_are_made_changed_and_taken_out_by_programs(manager):
    User.objects.create_user("anna")
    Team.objects.create(name="builders")

    made = manager.post("/members", {"user": "anna", "team": "builders"}).json
    assert (made["role"], made["team"], made["user"]) == ("member", "builders", "anna")
    assert manager.post("/members", {"user": "anna", "team": "builders"}).status == 422
    assert manager.post("/members", {"user": "nobody", "team": "builders"}).param == "user"
    path = f"/members/{made['id']}"
    assert manager.patch(path, {"role": "lead"}).json["role"] == "lead"
    assert manager.get("/members?user=anna").json["count"] == 1
    assert manager.delete(path).status == 204
    assert manager.delete(path).code == "not_found"
    told = [row.history_change_reason for row in Membership.history.all()]
    assert all(reason.startswith("the admin key robot") for reason in told[1:])


def test_an_admin_key_counts_as_one_only_while_its_owner_is_a_superuser():
    team = Team.objects.create(name="admins")
    root = User.objects.create_superuser("root")
    Membership.objects.create(user=root, team=team)
    key = ApiKey(team=team, user=root, name="robot", scopes=["admin"])
    text = give_secret(key)
    key.full_clean()
    key.save()
    assert Manager(text).get("/teams").status == 200

    User.objects.update(is_superuser=False)

    assert Manager(text).get("/teams").status == 403
