"""Whether a remote server answers, asked by a person on its preset's page."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from models_registry import editing
from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from models_registry.models import Preset
from models_registry.upstream_trying import tried
from tests.support.certificates import authority

from .registry_rows import FakeScheduler, make_model_file, make_preset, use_scheduler

pytestmark = pytest.mark.django_db
LIST = {"data": [{"id": "large-2"}, {"id": "small-1"}]}


class StandIn(ThreadingHTTPServer):
    """Answers every GET alike, and keeps what was asked."""

    status: int = 200
    told: Any = LIST
    asked: list[tuple[str, str | None]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        body = json.dumps(self.server.told).encode()
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def remote() -> Iterator[StandIn]:
    with StandIn(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def var(settings: Any, tmp_path: Path) -> None:
    settings.CORRAL_VAR = tmp_path


def far(url: str, **fields: Any) -> Preset:
    told = {"name": "far", "engine": "upstream", "upstream_url": url, "upstream_model": "large-2"}
    return editing.create_preset({**told, **fields}, Asker(label="a test", everything=True))


def refusal(preset: Preset) -> str:
    with pytest.raises(ManagementRefused) as refused:
        tried(preset)
    return str(refused.value)


def test_one_that_answers_and_knows_the_model_says_so(remote: StandIn) -> None:
    assert tried(far(f"{remote.url}/v1", upstream_key="sk-1")).endswith("knows large-2.")
    assert remote.asked == [("/v1/models", "Bearer sk-1")]


def test_one_that_does_not_list_the_model_says_what_it_lists(remote: StandIn) -> None:
    preset = far(remote.url, upstream_model="huge-3")

    assert "lists no huge-3; it lists large-2, small-1." in tried(preset)
    assert remote.asked == [("/v1/models", None)]


@pytest.mark.parametrize("told", [{}, [], "x", {"data": 3}, {"data": [1]}])
def test_what_lists_nothing_answers_all_the_same(remote: StandIn, told: Any) -> None:
    remote.told = told

    assert "it does not say" in tried(far(remote.url))


@pytest.mark.parametrize(
    ("status", "why"),
    [(401, "does not take the key"), (302, "status 302"), (500, "status 500")],
)
def test_what_does_not_answer_as_it_should_is_told(remote: StandIn, status: int, why: str) -> None:
    remote.status = status

    assert why in refusal(far(remote.url))
    assert len(remote.asked) == 1


def test_one_without_a_list_is_to_be_tried_by_a_request(remote: StandIn) -> None:
    remote.status = 404

    assert "send it a request" in tried(far(remote.url))


def test_where_nobody_listens_is_told() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))

        assert "does not answer" in refusal(far(f"http://127.0.0.1:{nobody.getsockname()[1]}"))


def test_a_certificate_that_cannot_be_verified_is_told(
    remote: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, tls = authority(tmp_path)
    remote.socket = tls.wrap_socket(remote.socket, server_side=True)
    preset = far(f"https://localhost:{remote.server_port}")

    assert "certificate" in refusal(preset)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    assert tried(preset).endswith("knows large-2.")


def test_a_name_that_leads_to_where_secrets_are_kept_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    assert "clouds keep the secrets" in refusal(far("http://metadata.example"))


def test_by_a_proxy_it_is_not_asked(remote: StandIn, settings: Any) -> None:
    settings.CORRAL_UPSTREAM_PROXY = "http://127.0.0.1:1"

    assert "proxy" in refusal(far(remote.url))
    assert remote.asked == []


def test_what_runs_here_is_not_asked(tmp_path: Path) -> None:
    assert refusal(make_preset("a", make_model_file(tmp_path / "a.gguf")))


def test_the_page_has_a_button_and_says_what_came_of_it(
    admin_client: Client, remote: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scheduler(monkeypatch, FakeScheduler())
    preset = far(remote.url)
    page = reverse("admin:models_registry_preset_change", args=[preset.pk])
    button = reverse("admin:models_registry_preset_try", args=[preset.pk])

    assert button in admin_client.get(page).content.decode()
    assert "knows large-2" in admin_client.post(button, follow=True).content.decode()
    remote.status = 500
    assert "status 500" in admin_client.post(button, follow=True).content.decode()
    assert admin_client.get(button).status_code == 405


def test_who_may_only_look_may_not_ask(client: Client, remote: StandIn) -> None:
    preset = far(remote.url)
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_preset"))
    client.force_login(user)

    answer = client.post(reverse("admin:models_registry_preset_try", args=[preset.pk]))
    assert answer.status_code == 403
    assert remote.asked == []
