"""The paths of llama.cpp's server beside chat, as its real children answer them."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
from typing import Any

import pytest

from tests.support.asking import MESSAGES
from tests.support.gateway import Gateway, ollama_root

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.one_worker]

CHAT = {"model": "alpha", "messages": MESSAGES, "max_tokens": 4}


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/tokenize", {"content": "Once upon a time"}, "tokens"),
        ("/detokenize", {"tokens": [1, 2, 3]}, "content"),
        ("/apply-template", {"messages": MESSAGES}, "prompt"),
        ("/v1/chat/completions/input_tokens", {"messages": MESSAGES}, "input_tokens"),
        ("/v1/messages/count_tokens", {"messages": MESSAGES}, "input_tokens"),
        ("/completion", {"prompt": "Once", "n_predict": 2}, "content"),
        ("/v1/responses", {"input": "Hello", "max_output_tokens": 4}, "output"),
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 4}, "content"),
    ],
)
def test_what_the_child_answers_comes_back(
    shared: Gateway, path: str, body: dict[str, Any], key: str
) -> None:
    answer = shared.client.request("POST", path, {"model": "alpha", **body})

    assert answer.status == 200, answer.body
    assert key in answer.json


def test_anthropics_stream_has_its_own_events_and_no_done(shared: Gateway) -> None:
    text = shared.client.request("POST", "/v1/messages", {**CHAT, "stream": True}).body.decode()

    assert text.startswith("event: message_start\n")
    assert "event: message_stop\n" in text
    assert "[DONE]" not in text


@pytest.mark.parametrize("path", ["/slots", "/props", "/lora-adapters"])
def test_a_look_at_a_loaded_model(shared: Gateway, path: str) -> None:
    assert shared.client.chat("alpha").status == 200

    answer = shared.client.request("GET", f"{path}?model=first&autoload=false")

    assert answer.status == 200, answer.body
    assert answer.json is not None


def test_a_look_loads_nothing_where_it_may_not(shared: Gateway) -> None:
    """Whatever the tests before have loaded: one of four is not among the two."""
    names = ["alpha", "beta", "gamma", "slow"]
    found = {
        name: shared.client.request("GET", f"/slots?model={name}&autoload=false") for name in names
    }

    refused = [answer for answer in found.values() if answer.status == 400]
    assert len(refused) >= 2
    assert {answer.json["error"]["message"] for answer in refused} == {"model is not loaded"}


def test_what_a_model_cannot_do_is_its_childs_own_501(shared: Gateway) -> None:
    body = {"model": "alpha", "input_prefix": "a", "input_suffix": "b"}
    answer = shared.client.request("POST", "/infill", body)

    assert answer.status == 501
    assert answer.json["error"]["type"] == "not_supported_error"


def test_an_upload_without_an_audio_model_is_the_childs_own_refusal(shared: Gateway) -> None:
    parts = [
        b'Content-Disposition: form-data; name="model"\r\n\r\nalpha\r\n',
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\nRIFF" + bytes(100_000) + b"\r\n",
    ]
    body = b"".join(b"--xyz\r\n" + part for part in parts) + b"--xyz--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=xyz"}

    answer = shared.client.request("POST", "/v1/audio/transcriptions", body, headers=headers)

    assert answer.status in (400, 501)
    assert "error" in answer.json


def test_what_happens_to_a_model_is_told_while_it_happens(shared: Gateway) -> None:
    shared.unload_all()
    connection = http.client.HTTPConnection("127.0.0.1", shared.client.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/models/sse", headers={"Authorization": f"Bearer {shared.key}"})
        with connection.getresponse() as told:
            assert told.headers["x-accel-buffering"] == "no"
            events = (json.loads(line[6:]) for line in told if line.startswith(b"data: "))
            assert next(events)["event"] == "snapshot"
            assert shared.client.chat("alpha").status == 200
            heard = (e["data"].get("status") for e in events if e["model"] == "alpha")
            assert "loading" in itertools.takewhile(lambda status: status != "loaded", heard)


def test_a_key_with_the_scope_load_loads_and_unloads(shared: Gateway) -> None:
    assert shared.client.chat("alpha").status == 200

    unloaded = shared.client.request("POST", "/models/unload", {"model": "alpha"})
    loaded = shared.client.request("POST", "/models/load", {"model": "alpha"})

    assert (unloaded.status, loaded.status) == (200, 200), (unloaded.body, loaded.body)
    assert shared.client.chat("alpha").status == 200


def test_ollamas_port_says_who_is_there(shared: Gateway) -> None:
    assert ollama_root(shared) == (200, b"Ollama is running")
