"""Whatever is asked, the answer has one shape; and the documents are served from here alone."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from django.test import Client

from models_registry import describing, editing
from proxy import access
from routerproj.api import api
from routerproj.wiring import Wiring
from scheduler.protocol import ERRORS
from tests.django.asgi_exchange import HOST, Exchange, scope

from .management import BASE, Manager, admin_key, session_of

pytestmark = pytest.mark.django_db


def raises(error: Exception) -> Any:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise error

    return broken


@pytest.mark.parametrize("path", ["/", "/nowhere", "/presets/", "/models/x", "/models/1/a"])
def test_a_path_that_is_none_is_answered_in_the_shape_of_the_rest(manager, path):
    answer = manager.get(path)

    assert (answer.status, answer.code) == (404, "not_found")
    assert answer.json["error"].keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/presets", "GET, POST"),
        ("POST", "/status", "GET"),
        ("GET", "/presets/a/load", "POST"),
        ("TRACE", "/keys", "GET, POST"),
        ("DELETE", "/presets", "GET, POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(manager, method, path, allowed):
    answer = manager.ask(method, path)

    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert sorted(answer.headers["Allow"].split(", ")) == allowed.split(", ")


def test_a_fault_of_ours_is_logged_and_its_words_are_kept_here(manager, monkeypatch, caplog):
    monkeypatch.setattr(editing, "presets", raises(RuntimeError("the secret is 42")))

    answer = manager.get("/presets")

    assert (answer.status, answer.code) == (500, "internal_error")
    assert "42" not in answer.text
    assert "the secret is 42" in caplog.text


def test_two_who_make_the_same_at_once_are_told_apart(manager, preset, monkeypatch):
    monkeypatch.setattr(editing, "saved", raises(IntegrityError("UNIQUE")))

    answer = manager.post("/aliases", {"name": "a", "preset": preset.name})

    assert (answer.status, answer.code) == (409, "conflict")


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("closed")])
def test_a_database_that_is_away_is_told_as_what_passes(manager, monkeypatch, error):
    monkeypatch.setattr(editing, "presets", raises(error))

    answer = manager.get("/presets")

    assert (answer.status, answer.code) == (503, "database_unavailable")
    assert answer.headers["Retry-After"] == "1"


def test_a_database_that_fails_is_not_taken_for_a_bad_key(monkeypatch):
    monkeypatch.setattr(access, "stored_key", raises(DatabaseError("disk full")))

    answer = Manager("ck_aaaaaaaa_" + "A" * 43).get("/presets")

    assert (answer.status, answer.code) == (503, "auth_unavailable")
    assert answer.headers["Retry-After"] == "1"


def test_every_code_that_is_answered_is_a_known_one():
    source = "".join(inspect.getsource(module) for module in (editing, access, describing))

    named = set(re.findall(r'(?:Refused|ManagementRefused)\(\s*"(\w+)"', source))
    assert named >= {"conflict", "permission_denied", "model_not_found"}
    assert named <= ERRORS.keys()


# The documents ----------------------------------------------------------------------------


def test_the_docs_page_takes_everything_from_here(manager):
    page = manager.get("/docs").text
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)

    assert len(addresses) >= 4
    for address in addresses:
        assert address.startswith("/static/ninja/")
        assert Client().get(address).status_code == 200
    assert "://" not in page


def test_the_docs_page_knows_its_document_and_its_token():
    page = session_of(User.objects.create_superuser("root")).get(BASE + "/docs").content.decode()

    assert '"url": "/router/api/openapi.json"' in page
    assert re.search(r'data-csrf-token="\w{64}"', page)


def test_a_browser_without_a_session_is_sent_to_log_in():
    answer = Manager().ask("GET", "/docs", headers={"Accept": "text/html,*/*"})

    assert answer.status == 302
    assert answer.headers["Location"] == "/admin/login/?next=/router/api/docs"


def test_the_document_says_who_may_ask_and_how_it_refuses():
    document = api.get_openapi_schema(path_prefix="")
    for operations in document["paths"].values():
        for operation in operations.values():
            assert operation["security"] == [{"adminKey": []}, {"adminSession": []}]
            schema = operation["responses"]["default"]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}
    assert document["components"]["securitySchemes"].keys() == {"adminKey", "adminSession"}


def test_every_reference_of_the_document_leads_somewhere():
    text = json.dumps(api.get_openapi_schema(path_prefix=""))
    schemas = json.loads(text)["components"]["schemas"]

    assert set(re.findall(r'"#/components/schemas/([^"]+)"', text)) <= schemas.keys()


# Through the whole application ------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        (b"/router/api/docs", 200, b"text/html; charset=utf-8"),
        (b"/router/api/openapi.json", 200, b"application/json"),
        (b"/router/api/presets", 200, b"application/json; charset=utf-8"),
        (b"/router/api/presets/no%2Fsuch%3Aone", 404, b"application/json"),
        (b"/static/ninja/swagger-ui-init.js", 200, b"text/javascript; charset=utf-8"),
    ],
)
async def test_the_api_works_behind_the_guard(path, status, kind):
    from channels.db import database_sync_to_async

    key = await database_sync_to_async(admin_key)()
    exchange = Exchange()
    headers = [*HOST, (b"authorization", b"Bearer " + key.encode())]
    await Wiring.from_settings().application(scope(path, headers), exchange.receive, exchange.send)

    assert exchange.status == status
    sent = {name.lower(): value for name, value in exchange.headers.items()}
    assert sent[b"content-type"].partition(b";")[0] == kind.partition(b";")[0]
    assert sent[b"x-request-id"]


@pytest.mark.django_db(transaction=True)
async def test_the_api_is_not_opened_by_cors(settings):
    settings.CORRAL_CORS_ORIGINS = ["*"]
    exchange = Exchange()
    headers = [*HOST, (b"origin", b"https://evil.example")]
    await Wiring.from_settings().application(
        scope(b"/router/api/presets", headers), exchange.receive, exchange.send
    )

    assert not any(name.lower().startswith(b"access-control") for name in exchange.headers)
