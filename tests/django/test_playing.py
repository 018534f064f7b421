"""A session in place of a key, in the playground: whose, in which team, and for what."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from models_registry.models import AuditRecord
from proxy.account.second_factor import NEEDED, STATE
from proxy.conf import ProxyConfig
from proxy.key_ring import KeyRing
from proxy.keys import stored_key
from proxy.models import ApiKey, Membership, Team
from proxy.playground.session_keys import SESSION
from routerproj.playing import carried
from scheduler.protocol import Refused

from .asgi_exchange import scope as asked_for

pytestmark = pytest.mark.django_db(transaction=True)

HOSTS = ("localhost",)
TOKEN = "a" * 32


def chat(team: Team | int, session: str, **changed: str) -> Any:
    """The scope that the gateway gets for a page's request."""
    headers = {
        "host": "localhost:8080",
        "origin": "http://localhost:8080",
        "cookie": f"csrftoken={TOKEN}; sessionid={session}",
        "x-csrftoken": TOKEN,
        "x-request-id": "play-1",
    } | changed
    path = f"/account/playground/teams/{getattr(team, 'pk', team)}/v1/chat/completions"
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return carried(asked_for(path.encode(), pairs, "POST"), HOSTS)


def key_of(carried_scope: Any) -> str:
    """The public id of the key that it counts as."""
    public_id: str = async_to_sync(carried_scope[SESSION])()
    return public_id


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="builders", allowed=["qwen*"])


@pytest.fixture
def session(team: Team) -> str:
    person = User.objects.create_user("mia", password="x")
    Membership.objects.create(user=person, team=team)
    client = Client()
    client.force_login(person)
    return client.cookies["sessionid"].value


def test_what_the_gateway_gets_is_a_request_of_its_own(team, session):
    found = chat(team, session)

    assert found["path"] == "/v1/chat/completions"
    assert found["query_string"] == b""


@pytest.mark.parametrize(
    "path",
    [
        "/account/playground/",
        "/account/playground/teams/1/v1/embeddings",
        "/account/playground/teams/1/models/load",
        "/account/playground/teams/x/v1/models",
        "/account/playground/teams/1/v1/models/",
        "/account/playground/teams/1/v1/models\n",
    ],
)
def test_nothing_else_is_carried_by_a_session(path):
    assert carried(asked_for(path.encode()), HOSTS) is None


def test_it_counts_as_a_key_of_its_person_in_that_team_which_nobody_else_can_use(team, session):
    first, second = key_of(chat(team, session)), key_of(chat(team, session))

    key = ApiKey.objects.get()
    assert first == second == key.public_id
    assert (key.team, key.user.username, key.in_session) == (team, "mia", True)
    assert key.scopes == ["infer", "read"]
    assert stored_key(f"ck_{key.public_id}_{'A' * 43}".encode()) is None
    record = AuditRecord.objects.get(object_type="key")
    assert (record.actor, record.door, record.request_id) == ("mia", "account", "play-1")


def test_the_gateway_knows_it_with_the_teams_models_and_limits(team, session, tmp_path):
    config = ProxyConfig(tmp_path / "c", tmp_path, tmp_path, "for tests")

    async def known() -> Any:
        ring = KeyRing(config)
        try:
            return await ring.identify([], chat(team, session)[SESSION])
        finally:
            await ring.close()

    caller = async_to_sync(known)()

    assert (caller.team, caller.user, caller.key_name) == ("builders", "mia", "playground")
    assert caller.may_use(["qwen3"])
    assert not caller.may_use(["smollm2"])
    assert caller.told_times


@pytest.mark.parametrize(
    "changed",
    [
        {"x-csrftoken": ""},
        {"x-csrftoken": "b" * 32},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:9090"},
        {"origin": "null"},
    ],
)
def test_a_page_from_elsewhere_or_without_its_token_is_refused(team, session, changed):
    with pytest.raises(Refused, match="load it again") as refused:
        key_of(chat(team, session, **changed))

    assert refused.value.code == "permission_denied"
    assert not ApiKey.objects.exists()


def test_a_host_that_was_rebound_is_refused(team, session):
    with pytest.raises(Refused, match="not served here"):
        key_of(chat(team, session, host="evil.example", origin="http://evil.example"))


@pytest.mark.parametrize("cookie", ["", "sessionid=", "sessionid=nonsense", "sessionid=\x00;\xff"])
def test_without_a_session_nobody_is_let_in(team, session, cookie):
    with pytest.raises(Refused, match="log in again") as refused:
        key_of(chat(team, session, cookie=f"csrftoken={TOKEN}; {cookie}"))

    assert refused.value.code == "invalid_api_key"


def test_whose_second_factor_is_awaited_is_not_let_in(team, session):
    store = SessionStore(session)
    store[STATE] = NEEDED
    store.save()

    with pytest.raises(Refused, match="log in again"):
        key_of(chat(team, session))


def test_who_is_inactive_is_not_let_in(team, session):
    User.objects.update(is_active=False)

    with pytest.raises(Refused, match="log in again"):
        key_of(chat(team, session))


def test_another_team_is_refused_and_one_that_is_not_there(team, session):
    others = Team.objects.create(name="others")

    for asked in (others, 10**17):
        with pytest.raises(Refused, match="not in this team"):
            key_of(chat(asked, session))


def test_who_has_left_the_team_is_refused_by_the_key_that_they_had(team, session, tmp_path):
    key_of(chat(team, session))
    Membership.objects.all().delete()
    ring_config = ProxyConfig(tmp_path / "c", tmp_path, tmp_path, "for tests")

    async def known() -> Any:
        ring = KeyRing(ring_config)
        try:
            return await ring.identify([], chat(team, session)[SESSION])
        finally:
            await ring.close()

    with pytest.raises(Refused) as refused:
        async_to_sync(known)()
    assert refused.value.code == "permission_denied"


def test_a_revoked_one_stays_revoked_and_a_deleted_one_is_made_anew(team, session):
    first = key_of(chat(team, session))
    client = Client()
    client.force_login(User.objects.get())
    client.post(f"/account/keys/{first}/revoke/")

    with pytest.raises(Refused, match="revoked"):
        key_of(chat(team, session))
    ApiKey.objects.all().delete()
    assert key_of(chat(team, session)) != first


def test_members_who_may_not_infer_by_their_own_keys_may_not_here(team, session):
    Team.objects.filter(pk=team.pk).update(member_scopes=["read"])

    with pytest.raises(Refused, match="scopes for members"):
        key_of(chat(team, session))
    assert not ApiKey.objects.exists()


def test_it_cannot_be_rotated_into_one_with_a_text(team, session):
    public_id = key_of(chat(team, session))
    client = Client()
    client.force_login(User.objects.get())

    answer = client.post(f"/account/keys/{public_id}/rotate/")

    assert "has no text that another could replace" in answer.content.decode()
    assert ApiKey.objects.count() == 1
