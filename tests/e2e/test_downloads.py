"""A model of the hub, from `serve -hf` to its first answer, the jobs process killed on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.asking import whole
from tests.support.gateway import Gateway, gateway
from tests.support.hub import Hub, downloads_from, hub
from tests.support.polling import eventually
from tests.support.tiny_model import tiny_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]

NAME = "team/tiny:Q8_0"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    model = tiny_model(tmp_path_factory.mktemp("published"), "tiny-Q8_0")
    with hub() as found:
        found.repository("team/tiny", {model.name: model.read_bytes()})
        yield found


@pytest.fixture(scope="module")
def running(serving: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("fetching")
    serving.bytes_per_second = 150_000
    env = downloads_from(serving, folder)
    with gateway(folder, args=["-hf", "team/tiny"], env=env, models={}) as found:
        yield found


def kept(running: Gateway) -> int:
    return sum(part.stat().st_size for part in (running.var.parent / "cache").rglob("*.incomplete"))


def test_it_is_listed_while_it_comes_survives_a_kill_and_is_loaded_when_it_is_there(
    running: Gateway, serving: Hub
) -> None:
    eventually(lambda: kept(running), "bytes come", 60)
    assert running.models()[NAME] in ("downloading", "queued")
    early = running.client.chat("team/tiny")
    assert (early.status, early.code) == (503, "model_downloading")
    assert int(early.headers["retry-after"]) >= 1

    running.kill("jobs")
    stood = kept(running)
    assert stood > 0
    eventually(lambda: kept(running) > stood, "the next jobs process goes on", 60)
    serving.bytes_per_second = 0

    eventually(lambda: running.models().get(NAME) == "loaded", "it is loaded", 60)
    ranges = [headers.get("range") for headers in serving.asked_for("/cdn/")]
    assert ranges == [None, f"bytes={stood}-"]
    assert whole(running.client.chat("team/tiny"))


def test_a_delete_over_http_ends_what_runs_and_empties_the_cache(running: Gateway) -> None:
    path = f"/models?model={NAME.replace(':', '%3A')}"

    refused = running.client.request("DELETE", path)
    assert (refused.status, refused.code) == (403, "permission_denied")
    running.client.key = running.admin_key
    assert running.client.request("DELETE", path).json == {"success": True}

    assert not list((running.var.parent / "cache").glob("models--*"))
    eventually(lambda: not running.children(), "the child goes")
    assert NAME not in running.models()


def test_a_post_fetches_it_again(running: Gateway, serving: Hub) -> None:
    body = json.dumps({"model": "team/tiny"}).encode()

    assert running.client.request("POST", "/models", body).json == {"success": True}

    eventually(lambda: running.models().get(NAME) == "unloaded", "it is there", 60)
