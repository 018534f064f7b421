"""Ollama's lines under each server: they come as they are written, and who leaves is noticed."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.gateway import Gateway, ollama_port
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

CHAT = {"messages": [{"role": "user", "content": "Hello"}]}
GENERATE = {"prompt": "Hello"}
LONG = 4_000
"""Tokens: many seconds."""


@contextmanager
def asking(
    shared: Gateway, path: str, most: int, **fields: Any
) -> Iterator[http.client.HTTPResponse]:
    """Without `stream`, which Ollama takes for true. Leaving the block leaves the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", ollama_port(shared), timeout=120)
    try:
        body = {"model": "endless", "options": {"num_predict": most}, **fields}
        headers = {"Authorization": f"Bearer {shared.key}"}
        connection.request("POST", path, json.dumps(body), headers)
        yield connection.getresponse()
    finally:
        connection.close()


@pytest.mark.parametrize(("path", "asked"), [("/api/chat", CHAT), ("/api/generate", GENERATE)])
def test_without_a_word_about_it_an_answer_comes_line_by_line(
    shared: Gateway, path: str, asked: dict[str, Any]
) -> None:
    with asking(shared, path, LONG, **asked) as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        first = json.loads(answer.readline())
        assert first["done"] is False
        assert shared.instance_of("slow")["leases"] == 1  # it is being written still

    with asking(shared, path, 8, **asked) as answer:
        *lines, last = answer.read().splitlines()
    assert len(lines) == 8
    assert json.loads(last)["eval_count"] == 8


def test_a_client_that_closes_in_mid_answer_gives_its_slot_back(shared: Gateway) -> None:
    with asking(shared, "/api/chat", LONG, **CHAT) as answer:
        answer.readline()
        child = shared.child_of("slow").pid

    eventually(lambda: not shared.instance_of("slow")["leases"], "its lease has ended")
    with asking(shared, "/api/chat", 2, **CHAT) as answer:
        assert json.loads(answer.read().splitlines()[-1])["done"]
    assert shared.child_of("slow").pid == child
