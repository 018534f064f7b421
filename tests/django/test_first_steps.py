"""The steps to a first answer: how far somebody is, and what the page offers to whom."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from proxy.first_steps.steps import models_for, steps_of
from proxy.keys import stored_key
from proxy.models import ApiKey, Membership, Team, UsageRecord

from .registry_rows import make_model_file, make_preset

pytestmark = pytest.mark.django_db


@pytest.fixture
def mia() -> User:
    user = User.objects.create_user("mia")
    team = Team.objects.create(name="builders", allowed=["qwen*"])
    Membership.objects.create(user=user, team=team)
    return user


@pytest.fixture
def page(mia: User) -> Client:
    client = Client()
    client.force_login(mia)
    return client


def made(client: Client, **fields: Any) -> str:
    wish = {"name": "laptop", "team": Team.objects.get(name="builders").pk, **fields}
    return client.post("/account/connect/", wish).content.decode()


def test_the_steps_are_done_one_after_the_other(mia, page, tmp_path):
    def done() -> dict[str, bool]:
        return page.get("/account/connect/state/").json()  # type: ignore[no-any-return]

    assert done() == {"model": False, "key": False, "request": False}
    make_preset("qwen3", make_model_file(tmp_path / "a.gguf"))
    assert done()["model"]
    made(page)
    assert done()["key"]
    key = ApiKey.objects.get()
    UsageRecord.objects.create(record="1", at=timezone.now(), key=key.public_id, upstream=True)
    assert done() == {"model": True, "key": True, "request": True}


def test_what_comes_by_the_playground_is_no_clients_request(mia):
    team = Team.objects.get(name="builders")
    ApiKey.objects.create(team=team, user=mia, name="playground", in_session=True, public_id="a")
    UsageRecord.objects.create(record="1", at=timezone.now(), key="a", upstream=True)

    steps = steps_of(mia)
    assert (steps.key, steps.request) == (False, False)


def test_a_member_is_offered_the_models_of_their_teams_alone(mia, tmp_path):
    for name in ("qwen3", "smollm2", "qwen2"):
        make_preset(name, make_model_file(tmp_path / f"{name}.gguf"))
    make_preset("qwen-hidden", make_model_file(tmp_path / "h.gguf"), unlisted=True)

    assert models_for(mia) == ["qwen2", "qwen3"]
    assert models_for(User.objects.create_superuser("root")) == ["qwen2", "qwen3", "smollm2"]
    assert models_for(User.objects.create_user("nobody")) == []


def test_a_key_is_made_and_shown_once_in_the_clients_lines(page):
    shown = made(page)

    text = shown.partition('id="corral-key">')[2].partition("<")[0]
    assert stored_key(text.encode()) == ApiKey.objects.get()
    assert shown.count(text) > 5
    assert text not in page.get("/account/connect/").content.decode()


def test_a_key_for_another_team_is_not_made(page):
    others = Team.objects.create(name="others")

    assert "Select a valid choice" in made(page, team=others.pk)
    assert not ApiKey.objects.exists()


def test_only_a_superuser_joins_the_default_team_by_themselves(mia, page):
    Membership.objects.all().delete()
    assert page.post("/account/connect/join/").status_code == 403

    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    assert "Join the team default" in root.get("/account/connect/").content.decode()
    root.post("/account/connect/join/", {"next": "account:playground"})
    again = root.post("/account/connect/join/", {"next": "https://evil.example"})

    membership = Membership.objects.get()
    assert (membership.user.username, membership.team.name) == ("root", "default")
    assert again["Location"] == "/account/connect/"


def test_what_only_staff_may_do_is_offered_to_staff_alone(page, admin_client: Client):
    theirs = page.get("/account/connect/").content.decode()
    admins = admin_client.get("/account/connect/").content.decode()

    assert "Look for models" not in theirs
    assert "can add one" in theirs
    assert "Look for models" in admins
    assert "/admin/models_registry/download/add/?kind=hub&amp;target=ggml-org%2F" in admins


def test_a_suggested_download_is_filled_in(admin_client: Client):
    form = admin_client.get(
        "/admin/models_registry/download/add/?kind=hub&target=ggml-org%2FQwen3-0.6B-GGUF&load=on"
    ).content.decode()

    assert 'value="ggml-org/Qwen3-0.6B-GGUF"' in form
