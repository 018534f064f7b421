"""What llama.cpp's own chat page does with a router, by the requests that it sends."""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.asking import MESSAGES
from tests.support.conversing import (
    DONE,
    asked,
    first_bytes,
    has_ended,
    looked_up,
    resumed,
    stopped,
)
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow]

CHAT = {
    "messages": MESSAGES,
    "return_progress": True,
    "reasoning_format": "auto",
    "timings_per_token": True,
    "max_tokens": 8,
}
"""The page's own body but for `max_tokens`."""


@contextmanager
def news(gateway: Gateway) -> Iterator[Iterator[dict[str, Any]]]:
    """What EventSource hears on /models/sse: each event's data."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.client.port, timeout=60)
    connection.request("GET", "/models/sse", headers={"Authorization": f"Bearer {gateway.key}"})
    response = connection.getresponse()
    assert response.status == 200
    try:
        yield (json.loads(line[6:]) for line in response if line.startswith(b"data: "))
    finally:
        connection.close()


def until(heard: Iterator[dict[str, Any]], model: str, state: str) -> list[str]:
    """The states of the model that were told, up to this one."""
    states = []
    for event in heard:
        if event.get("model") == model and "status" in event.get("data", {}):
            states.append(event["data"]["status"])
            if states[-1] == state:
                return states
    raise AssertionError(f"the news ended before {model} was {state}")


def test_it_knows_a_router_and_finds_its_models(shared: Gateway) -> None:
    props = shared.client.request("GET", "/props").json
    models = shared.client.request("GET", "/v1/models").json["data"]

    assert (props["role"], props["models_autoload"]) == ("router", True)
    alpha = next(model for model in models if model["id"] == "alpha")
    assert alpha["status"]["value"] in ("unloaded", "loading", "loaded", "sleeping")
    assert {"id", "aliases", "tags", "status", "architecture", "created"} <= alpha.keys()


def test_it_loads_a_model_by_hand_and_follows_its_progress(shared: Gateway) -> None:
    shared.unload_all()
    with news(shared) as heard:
        loaded = shared.client.request("POST", "/models/load", {"model": "beta"})
        states = until(heard, "beta", "loaded")
        props = shared.client.request("GET", "/props?model=beta&autoload=false").json
        again = shared.client.request("POST", "/models/load", {"model": "beta"})

    assert (loaded.status, loaded.json) == (200, {"success": True})
    assert "loading" in states
    assert props["default_generation_settings"]["n_ctx"] > 0
    assert props["modalities"]["vision"] is False
    assert (again.status, again.message) == (400, "model is already running")


def test_it_unloads_a_model_with_an_admin_key(shared: Gateway) -> None:
    shared.client.chat("beta")
    with news(shared) as heard:
        key = shared.admin_key
        ended = shared.client.request("POST", "/models/unload", {"model": "beta"}, key=key)
        until(heard, "beta", "unloaded")

    assert (ended.status, ended.json) == (200, {"success": True})


def test_it_chats_with_progress_of_the_prompt_and_timings(shared: Gateway) -> None:
    with shared.client.stream("alpha", **CHAT) as stream:
        whole = stream.to_end()

    assert whole.finished
    assert any("prompt_progress" in event for event in whole.events)
    assert whole.events[-1]["timings"]["predicted_n"] > 0
    assert {event["model"] for event in whole.events} == {"alpha"}


def test_what_it_may_not_do_it_is_told_in_llama_cpps_words(shared: Gateway) -> None:
    unknown = shared.client.request("POST", "/models/load", {"model": "nobody"})
    tools = shared.client.request("GET", "/tools")

    assert (unknown.status, unknown.code) == (400, "model_not_found")
    assert (tools.status, tools.code) == (501, "not_supported")


def test_a_page_that_was_reloaded_finds_its_answer_and_goes_on_with_it(shared: Gateway) -> None:
    shared.client.chat("slow")
    talk, other = str(uuid.uuid4()), str(uuid.uuid4())
    id = f"{talk}::slow"
    assert looked_up(shared.client, talk, other) == {}
    with asked(shared.client, id, "slow", **CHAT | {"max_tokens": 120}) as connection:
        received = first_bytes(connection)

    found = looked_up(shared.client, talk, other)
    rest = resumed(shared.client, id, len(received))

    assert list(found) == [id]
    assert (received + rest.body).endswith(DONE)
    assert has_ended(shared.client, id)


def test_its_stop_button_ends_the_answer(shared: Gateway) -> None:
    shared.client.chat("slow")
    id = f"{uuid.uuid4()}::slow"
    with asked(shared.client, id, "slow", **CHAT | {"max_tokens": 3000}) as connection:
        response = connection.getresponse()
        response.read1(64)
        assert stopped(shared.client, id) == 204
        rest = response.read()

    assert not rest.endswith(DONE)
