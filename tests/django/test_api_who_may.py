"""Every route asks who it is. The routes are walked by the OpenAPI document, so that none is
forgotten."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from proxy.keys import create_key
from proxy.models import ApiKey
from routerproj.api import api

from .management import BASE, Answer, Manager, admin_key, session_of, staff

pytestmark = pytest.mark.django_db


def every_operation() -> list[tuple[str, str]]:
    document = api.get_openapi_schema(path_prefix="/")
    return sorted(
        (method.upper(), "/" + re.sub(r"\{(\w+)\}", _example, path).lstrip("/"))
        for path, operations in document["paths"].items()
        for method in operations
    )


def _example(parameter: re.Match[str]) -> str:
    known = {"public_id": "aaaaaaaa", "request_id": "mine-1", "device": "CUDA0"}
    known |= dict.fromkeys(("id", "number"), "1")
    return known.get(parameter[1], "some/model:Q4_K_M")


FOR_MANY = ("/usage/", "/limits/counted", "/teams/1/content")
"""For everybody, each their own: usage/test_api.py, test_limits_counted.py and others."""
OPERATIONS = [each for each in every_operation() if not each[1].startswith(FOR_MANY)]
DOCUMENTS = [("GET", "/openapi.json"), ("GET", "/docs")]


def refusals(manager: Manager, headers: dict[str, str] | None = None) -> dict[Any, Answer]:
    """What each operation says to a body that it would otherwise take offence at."""
    return {
        (method, path): manager.ask(method, path, {"name": "x"}, headers)
        for method, path in OPERATIONS + DOCUMENTS
    }


def codes(answers: dict[Any, Answer]) -> set[tuple[int, str]]:
    return {(answer.status, answer.code) for answer in answers.values()}


def test_there_are_routes_to_walk():
    paths = {path for _, path in OPERATIONS}

    assert len(OPERATIONS) >= 30
    for start in (
        "models", "presets", "fit", "aliases", "instances", "devices", "queue", "record", "keys",
        "teams", "status", "rescan",
    ):  # fmt: skip
        assert any(path.startswith(f"/{start}") for path in paths), start


def test_without_a_key_nothing_is_answered():
    answers = refusals(Manager(), {"Accept": "application/json"})

    assert codes(answers) == {(401, "invalid_api_key")}
    assert all(answer.headers["WWW-Authenticate"] for answer in answers.values())
    assert all(answer.headers["x-should-retry"] == "false" for answer in answers.values())


@pytest.mark.parametrize(
    "key", ["x", "ck_", "ck_aaaaaaaa_" + "A" * 43, "Bearer", "ck_aaaaaaaa_" + "é" * 43]
)
def test_a_key_that_is_none_opens_nothing(key):
    assert codes(refusals(Manager(key))) == {(401, "invalid_api_key")}


def test_a_good_id_with_a_wrong_secret_opens_nothing():
    text = admin_key()
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")

    assert codes(refusals(Manager(wrong))) == {(401, "invalid_api_key")}


def test_a_revoked_key_opens_nothing():
    text = admin_key()
    ApiKey.objects.update(revoked_at=timezone.now())

    assert codes(refusals(Manager(text))) == {(401, "invalid_api_key")}


def test_an_expired_key_opens_nothing():
    text = admin_key()
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert codes(refusals(Manager(text))) == {(401, "invalid_api_key")}


def test_an_inference_key_may_not_manage():
    assert codes(refusals(Manager(create_key("app")))) == {(403, "permission_denied")}


def test_a_key_of_the_command_line_may_not_manage(settings):
    settings.CORRAL_API_KEYS = ["sk-plain"]

    assert codes(refusals(Manager("sk-plain"))) == {(403, "permission_denied")}


def test_a_gateway_without_keys_still_asks_for_one_here(settings):
    settings.CORRAL_NO_AUTH = True

    assert codes(refusals(Manager(), {"Accept": "application/json"})) == {(401, "invalid_api_key")}


def test_somebody_who_may_not_enter_the_admin_may_not_manage():
    client = session_of(User.objects.create_user("plain"))

    assert codes(refusals(Manager(client=client))) == {(403, "permission_denied")}


def test_staff_without_permissions_may_only_read_the_document():
    answers = refusals(Manager(client=session_of(staff())))

    assert {answers.pop(operation).status for operation in DOCUMENTS} == {200}
    assert codes(answers) == {(403, "permission_denied")}


def test_a_session_without_its_token_changes_nothing():
    client = session_of(User.objects.create_superuser("root"), csrf=True)
    answers = refusals(Manager(client=client))

    changing = {key: answer for key, answer in answers.items() if key[0] != "GET"}
    assert codes(changing) == {(403, "permission_denied")}
    assert all("X-CSRFToken" in answer.message for answer in changing.values())


@pytest.mark.usefixtures("scheduler")
def test_a_session_with_its_token_manages():
    client = session_of(User.objects.create_superuser("root"), csrf=True)
    client.get("/admin/")
    manager = Manager(client=client)
    token = client.get(BASE + "/docs").content.decode().partition('data-csrf-token="')[2][:64]

    made = manager.ask("POST", "/teams", {"name": "builders"}, {"X-CSRFToken": token})

    assert (made.status, manager.get("/teams").json["count"]) == (201, 2)


def test_an_admin_key_needs_no_token(manager):
    manager.client = Client(enforce_csrf_checks=True, raise_request_exception=False)

    assert manager.post("/teams", {"name": "builders"}).status == 201


def test_an_admin_key_is_refused_nothing(manager):
    for (method, path), answer in refusals(manager).items():
        assert answer.status not in (401, 403), (method, path)
        assert answer.status < 500, (method, path, answer.text)


def test_a_bad_key_is_not_made_good_by_a_session():
    client = session_of(User.objects.create_superuser("root"))

    assert Manager("nonsense", client).get("/presets").status == 401


def test_two_different_keys_are_refused(manager):
    other = {"X-Api-Key": admin_key("other")}

    assert manager.ask("GET", "/presets", headers=other).status == 401


def test_an_admin_key_may_come_as_x_api_key(scheduler):
    manager = Manager()

    assert manager.ask("GET", "/presets", headers={"X-Api-Key": admin_key()}).status == 200


def test_staff_may_do_what_their_permission_says_and_no_more(preset):
    manager = Manager(client=session_of(staff("models_registry.view_preset")))

    assert manager.get("/presets").status == 200
    assert manager.get(f"/presets/{preset.name}/effective").status == 200
    assert manager.post(f"/presets/{preset.name}/load").status == 403
    assert manager.patch(f"/presets/{preset.name}", {"ctx_size": 16}).status == 403
    assert manager.get("/keys").status == 403


def test_only_who_may_do_everything_changes_extra_options(preset):
    limited = Manager(
        client=session_of(staff("models_registry.change_preset", "models_registry.add_preset"))
    )
    path = f"/presets/{preset.name}"

    refused = limited.patch(path, {"extra_options": "top-k = 1"})
    new = limited.post(
        "/presets",
        {"name": "b", "model_file": preset.model_file.pk, "extra_options": "top-k = 1"},
    )

    assert (refused.status, refused.param) == (403, "extra_options")
    assert (new.status, new.param) == (403, "extra_options")
    assert limited.patch(path, {"ctx_size": 1024, "extra_options": ""}).status == 200
    assert Manager(admin_key()).patch(path, {"extra_options": "top-k = 1"}).status == 200


def test_who_may_only_add_keys_cannot_make_themselves_an_admin_key():
    manager = Manager(client=session_of(staff("proxy.add_apikey")))

    refused = manager.post("/keys", {"name": "mine", "scopes": ["read", "admin"]})

    assert (refused.status, refused.param) == (403, "scopes")
    assert manager.post("/keys", {"name": "mine"}).status == 201
    assert not ApiKey.objects.filter(scopes__icontains="admin").exists()


def test_an_admin_keys_use_is_noted(manager):
    manager.get("/teams")

    assert ApiKey.objects.get().last_used_at is not None


def test_the_body_is_not_looked_at_before_who_sent_it(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10

    assert Manager().post("/presets", b"{" * 100).status == 401
