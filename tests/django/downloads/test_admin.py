"""Downloads in the admin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from models_registry.models import Download, ModelFile
from tests.django.management import session_of, staff
from tests.django.registry_rows import FakeScheduler, use_scheduler

from .conftest import GGUF

pytestmark = pytest.mark.django_db

LIST = "/admin/models_registry/download/"


@pytest.fixture(autouse=True)
def scheduler(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    return use_scheduler(monkeypatch, FakeScheduler())


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def add(client: Client, **fields: Any) -> Any:
    data = {"kind": "hub", "target": "team/m", "revision": "", "token": "", **fields}
    return client.post(f"{LIST}add/", data)


def row(**fields: Any) -> Download:
    return Download.objects.create(**{"target": "team/m", "name": "team/m", **fields})


def test_the_form_begins_one_and_keeps_the_token_to_itself(
    admin_client: Client, tmp_path: Path
) -> None:
    assert 'type="password"' in page(admin_client, f"{LIST}add/")

    answer = add(admin_client, sidecars=["mmproj", "draft"], token="hf_canary", load="on")

    assert answer.status_code == 302
    made = Download.objects.get()
    assert (made.target, made.sidecars, made.load) == ("team/m", ["mmproj", "draft"], True)
    assert (made.state, made.asked_by) == ("queued", "admin")
    shown = page(admin_client, f"{LIST}{made.pk}/change/") + page(admin_client, LIST)
    assert "hf_canary" not in shown
    [token] = (tmp_path / "var" / "downloads").glob("*.token")
    assert token.read_text() == "hf_canary"


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"target": "nonsense"}, "target"),
        ({"target": ""}, "target"),
        ({"kind": "url", "target": "ftp://h/m.gguf"}, "target"),
        ({"kind": "ollama", "target": "m", "revision": "main"}, "revision"),
    ],
)
def test_a_fault_stands_at_its_field(admin_client: Client, fields: dict[str, str], at: str) -> None:
    answer = add(admin_client, **fields)

    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors[at]
    assert not Download.objects.exists()


def test_what_is_fetched_already_is_said_and_not_begun_again(admin_client: Client) -> None:
    row(state="queued")

    answer = add(admin_client)

    assert answer.status_code == 200
    assert "asked for already" in str(answer.context["adminform"].form.errors["target"])
    assert Download.objects.count() == 1


def test_the_list_asks_for_its_progress_when_it_hears_of_some(admin_client: Client) -> None:
    running = row(
        state="running", bytes_done=1 << 20, bytes_total=4 << 20, bytes_per_second=float(1 << 20)
    )
    failed = row(target="team/n", state="failed", error="<b>no room</b>")

    shown = page(admin_client, LIST)
    asked = re.search(r'hx-get="([^"]*)"[^>]*hx-trigger="corral:fetched from:body', shown)
    assert asked is not None
    pieces = page(admin_client, asked[1].replace("&amp;", "&"))

    assert f'<div id="download-{running.pk}" hx-swap-oob="true">' in pieces
    assert '<progress class="corral-progress" max="100" value="25.0">' in pieces
    assert "1.0 MiB of 4.0 MiB, 1.0 MiB/s, 3 s left" in pieces
    assert f'id="download-{failed.pk}"' in pieces
    assert "&lt;b&gt;no room&lt;/b&gt;" in pieces


def test_progress_is_for_those_who_may_see_it(client: Client) -> None:
    made = row()
    path = f"{LIST}progress/?ids={made.pk}"

    assert client.get(path).status_code == 204
    viewer = staff("models_registry.view_download")
    assert session_of(viewer).get(path).status_code == 200
    viewer.user_permissions.clear()
    assert session_of(viewer).get(path).status_code == 204


@pytest.mark.parametrize("ids", ["", "x", "1,,2", "9" * 40, ",".join(["1"] * 5000)])
def test_any_list_of_ids_is_answered(admin_client: Client, ids: str) -> None:
    assert admin_client.get(f"{LIST}progress/?ids={ids}").status_code == 204


def test_the_buttons_do_what_they_say(admin_client: Client) -> None:
    made = row(state="queued")

    def press(verb: str) -> str:
        url = reverse(f"admin:models_registry_download_{verb}", args=[made.pk])
        assert f'action="{url}"' in page(admin_client, f"{LIST}{made.pk}/change/")
        assert admin_client.get(url).status_code == 405
        admin_client.post(url)
        made.refresh_from_db()
        return made.state

    assert press("pause") == "paused"
    assert press("resume") == "queued"
    assert press("cancel") == "cancelled"


def test_who_may_only_look_gets_no_buttons(stand_in) -> None:
    made = row(state="queued")
    viewer = session_of(staff("models_registry.view_download"))

    assert "corral-button" not in page(viewer, f"{LIST}{made.pk}/change/")
    url = reverse("admin:models_registry_download_pause", args=[made.pk])
    assert viewer.post(url).status_code == 403


def test_an_action_on_several_says_which_could_not(admin_client: Client) -> None:
    rows = [row(state="queued"), row(target="team/done", state="done")]

    answer = admin_client.post(
        LIST,
        {"action": "pause", "_selected_action": [each.pk for each in rows]},
        follow=True,
    )

    told = {str(message) for message in answer.context["messages"]}
    assert told == {"team/m is paused.", "team/done cannot be paused: it is done."}


@pytest.mark.django_db(transaction=True)  # its pulse has a connection of its own
def test_a_finished_one_can_be_deleted_with_its_model(
    admin_client: Client, stand_in, fetched
) -> None:
    stand_in.repository("team/m", {"m-Q8_0.gguf": GGUF})
    made = fetched("team/m")
    path = Path(ModelFile.objects.get().path)

    answer = admin_client.post(reverse("admin:models_registry_download_remove", args=[made.pk]))

    assert answer.headers["Location"] == LIST
    assert not path.exists()
    assert not Download.objects.exists()


def test_a_running_one_is_not_deleted_from_the_list(admin_client: Client) -> None:
    made = row(state="running")

    admin_client.post(
        LIST, {"action": "delete_selected", "_selected_action": [made.pk], "post": "yes"}
    )
    assert admin_client.post(f"{LIST}{made.pk}/delete/", {"post": "yes"}).status_code == 403

    assert Download.objects.exists()
