"""Who may change models, and what is refused for good."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from models_registry.models import Download, Preset
from proxy.scopes import Scope

from .changing import DIGEST, asked, key

pytestmark = pytest.mark.django_db(transaction=True)


CHANGES = [
    ("POST", "/api/pull", {"model": "new"}),
    ("POST", "/api/create", {"model": "x", "from": "base"}),
    ("POST", "/api/copy", {"source": "base", "destination": "x"}),
    ("DELETE", "/api/delete", {"model": "base"}),
    ("POST", f"/api/blobs/{DIGEST}", {}),
    ("HEAD", f"/api/blobs/{DIGEST}", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES, ids=lambda value: str(value)[:20])
async def test_it_takes_an_admin_key(house, method: str, path: str, body: object) -> None:
    none = await asked(house, path, body, method=method)
    inference = await sync_to_async(key)(Scope.INFER)
    wrong = await asked(house, path, body, method=method, headers=inference)

    assert (none.status, wrong.status) == (401, 403)
    assert wrong.json["code"] == "permission_denied"
    assert await Preset.objects.acount() == 1
    assert not await Download.objects.aexists()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/push"),
        ("POST", "/api/me"),
        ("POST", "/api/signout"),
        ("DELETE", "/api/user/keys/1"),
        ("POST", "/api/experimental/web_search"),
        ("POST", "/api/experimental/web_fetch"),
        ("GET", "/api/experimental/model-recommendations"),
    ],
)
async def test_what_is_ollamas_clouds_is_refused_for_good(house, method: str, path: str) -> None:
    exchange = await asked(house, path, {"model": "base"}, method=method)

    assert exchange.status == 501
    assert isinstance(exchange.json["error"], str)


@pytest.mark.parametrize("path", ["/api/pull", "/api/create", "/api/copy"])
@pytest.mark.parametrize(
    ("raw", "told"),
    [(b"", "missing request body"), (b"{", "not valid JSON"), (b"[]", "not as Ollama has it")],
)
async def test_a_body_that_makes_no_sense_is_refused(
    house, admin, path: str, raw: bytes, told: str
) -> None:
    exchange = await asked(house, path, raw=raw, headers=admin)

    assert exchange.status == 400
    assert told in exchange.json["error"]
