"""Django's own paths, as a browser asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from proxy.keys import create_key
from proxy.models import UsageRecord

from .registry_rows import make_model_file, make_preset


def test_who_is_not_logged_in_does_that_first_and_comes_back(client: Client) -> None:
    answer = client.get("/")

    assert (answer.status_code, answer.headers["Location"]) == (302, "/account/login/?next=/")


def test_who_may_look_at_the_live_page_is_sent_to_the_first_steps_until_these_are_done(
    admin_client: Client, tmp_path: Path
) -> None:
    assert admin_client.get("/").headers["Location"] == "/account/connect/"

    make_preset("alpha", make_model_file(tmp_path / "a.gguf"))
    key = create_key("laptop")[3:11]
    assert admin_client.get("/").headers["Location"] == "/account/connect/"
    UsageRecord.objects.create(record="1", at=timezone.now(), key=key, upstream=True)

    assert admin_client.get("/").headers["Location"] == "/admin/live/"


@pytest.mark.django_db
def test_a_member_is_sent_to_what_is_theirs(client: Client) -> None:
    client.force_login(User.objects.create_user("mia"))

    assert client.get("/").headers["Location"] == "/account/"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_a_client_is_told_in_json_that_there_is_no_such_path(client: Client, method: str) -> None:
    answer = client.generic(method, "/predict")

    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == "not_found"
    assert error["message"] == f"There is no endpoint {method} /predict on this gateway."


def test_a_browser_is_told_by_a_page_that_there_is_no_such_path(client: Client) -> None:
    answer = client.get("/nope", headers={"accept": "text/html,*/*;q=0.8"})

    assert answer.status_code == 404
    assert answer.headers["Content-Type"].startswith("text/html")


@pytest.mark.django_db
def test_the_admin_asks_who_it_is(client: Client) -> None:
    assert client.get("/admin/", follow=True).request["PATH_INFO"] == "/admin/login/"


def test_static_files_are_served_without_being_collected(client: Client) -> None:
    answer = client.get("/static/admin/css/base.css")

    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/css")
    assert b"body" in answer.content
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_part_of_a_static_file_is_served(client: Client) -> None:
    answer = client.get("/static/admin/css/base.css", headers={"range": "bytes=0-9"})

    assert answer.status_code == 206
    assert len(answer.content) == 10


def test_another_host_is_refused(client: Client) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
