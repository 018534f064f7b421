"""While the database is away, pages and the management API say so, without asking it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import AsyncClient, Client

pytestmark = pytest.mark.django_db(transaction=True)

BROWSER = {"accept": "text/html,*/*;q=0.8"}


def fails(*asked: Any) -> Any:
    raise OperationalError("the server closed the connection")


@pytest.fixture
def client() -> Client:
    made = Client(raise_request_exception=False)
    made.force_login(User.objects.create_superuser("boss"))
    return made


@pytest.fixture
def away() -> Iterator[None]:
    with connection.execute_wrapper(fails):
        yield


@pytest.mark.parametrize(
    "path", ["/admin/", "/admin/proxy/team/?q=a%22%3E", "/admin/proxy/usageday/", "/account/"]
)
def test_a_page_says_so_and_leads_back_to_itself(client, away, path):
    answer = client.get(path, headers=BROWSER)

    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert answer["Content-Type"].startswith("text/html")
    assert answer["Cache-Control"] == "no-store"
    assert "The database is away" in answer.content.decode()
    assert f'<a href="{path}">' in answer.content.decode()


def test_logging_in_says_so(client, away):
    sent = {"username": "boss", "password": "x"}

    assert Client(raise_request_exception=False).post(
        "/admin/login/", sent, headers=BROWSER
    ).status_code == 503  # fmt: skip


@pytest.mark.parametrize("path", ["/router/api/teams", "/router/api/usage/summary"])
def test_the_management_api_says_so_in_json(client, away, path):
    answer = client.get(path, headers=BROWSER)

    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert answer.json()["error"]["code"] in ("database_unavailable", "auth_unavailable")


def test_a_program_is_told_in_json_by_a_page_too(client, away):
    assert client.get("/admin/").json()["error"]["code"] == "database_unavailable"


async def test_it_is_so_behind_an_asgi_server(client, monkeypatch):
    """Whose handlers run in other threads than the one in which it failed."""
    asking = AsyncClient(raise_request_exception=False)
    asking.cookies = client.cookies
    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", fails)

    answer = await asking.get("/admin/", headers=BROWSER)

    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert "The database is away" in answer.content.decode()


def test_whatever_else_breaks_is_an_error_of_ours(client, monkeypatch):
    def breaks(*asked: Any) -> Any:
        raise ValueError("a secret")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", breaks)
    answer = client.get("/admin/", headers=BROWSER)

    assert answer.status_code == 500
    assert "secret" not in answer.content.decode()


def test_the_admin_leads_to_ones_own_page_and_that_to_the_admin(client):
    assert client.get("/admin/").content.decode().count('href="/account/"') >= 2
    assert 'href="/admin/"' in client.get("/account/").content.decode()
