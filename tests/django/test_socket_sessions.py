"""People who may enter the admin listen to what happens to models, from our own pages alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.test import Client

from proxy.account.second_factor import NEEDED, PASSED, STATE
from routerproj.socket_sessions import person_of
from scheduler.protocol import Refused

pytestmark = pytest.mark.django_db(transaction=True)

HOSTS = ("gpu",)


def session_of(*, staff: bool, active: bool = True) -> str:
    person = User.objects.create_user("ann", password="x", is_staff=staff)
    client = Client()
    client.force_login(person)
    if not active:
        User.objects.update(is_active=False)
    return client.cookies["sessionid"].value


def scope(session: str, host: str = "gpu:8080", origin: str = "http://gpu:8080") -> dict[str, Any]:
    headers = {"host": host, "origin": origin, "cookie": f"csrftoken=a; sessionid={session}"}
    return {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


@pytest.fixture
def staff() -> str:
    return session_of(staff=True)


async def test_somebody_of_the_admin_is_known(staff: str) -> None:
    assert await person_of(scope(staff), HOSTS) == "ann"


def test_whose_second_factor_is_awaited_is_nobody_yet(staff: str) -> None:
    from asgiref.sync import async_to_sync

    session = SessionStore(staff)
    session[STATE] = NEEDED
    session.save()
    assert async_to_sync(person_of)(scope(staff), HOSTS) is None

    session[STATE] = PASSED
    session.save()
    assert async_to_sync(person_of)(scope(staff), HOSTS) == "ann"


@pytest.mark.parametrize("others", [{"staff": False}, {"staff": True, "active": False}])
def test_others_are_not(others: dict[str, bool]) -> None:
    from asgiref.sync import async_to_sync

    assert async_to_sync(person_of)(scope(session_of(**others)), HOSTS) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://gpu:9090"},
        {"origin": ""},
        {"origin": "null"},
        {"host": "rebound.example:8080", "origin": "http://rebound.example:8080"},
    ],
)
async def test_a_session_counts_on_our_own_pages_alone(staff: str, changed: dict[str, str]) -> None:
    assert await person_of(scope(staff, **changed), HOSTS) is None


@pytest.mark.parametrize("session", ["", "nonsense", "x" * 5000, "\x00;\xff"])
async def test_nonsense_is_nobody(session: str) -> None:
    assert await person_of(scope(session), HOSTS) is None


async def test_a_database_that_fails_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: SessionStore) -> None:
        raise OperationalError("locked")

    monkeypatch.setattr(SessionStore, "load", fail)
    with pytest.raises(Refused, match="cannot be checked"):
        await person_of(scope("somesession"), HOSTS)


async def test_by_http_a_page_of_ours_says_no_origin(staff: str) -> None:
    plain = {**scope(staff, origin=""), "type": "http"}

    assert await person_of(plain, HOSTS) == "ann"
    assert (
        await person_of({**scope(staff, origin="http://evil.example"), "type": "http"}, HOSTS)
        is None
    )
    assert await person_of({**plain, "type": "websocket"}, HOSTS) is None
