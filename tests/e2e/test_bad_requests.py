"""Requests that cannot be served: each gets its own status and code, and disturbs nothing."""

from __future__ import annotations

import json
import socket

import pytest

from tests.support.asking import CHAT, MESSAGES, chat_body
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.one_worker]


def test_an_unknown_model_is_not_found(shared: Gateway) -> None:
    answer = shared.client.chat("nobody")

    assert (answer.status, answer.code) == (404, "model_not_found")


def test_a_body_without_a_model_is_refused(shared: Gateway) -> None:
    answer = shared.client.request("POST", CHAT, {"messages": MESSAGES})

    assert (answer.status, answer.code) == (400, "model_missing")


@pytest.mark.parametrize(
    "body", [b"{", b"", b"[1]", b'"alpha"', b"\xff\xfe", b'{"model": "alpha"', b'{"model": 1}']
)
def test_a_body_that_is_no_json_object_with_a_model_is_refused(
    shared: Gateway, body: bytes
) -> None:
    answer = shared.client.request("POST", CHAT, body)

    assert answer.status == 400


def test_invalid_json_loads_nothing(shared: Gateway) -> None:
    shared.unload_all()

    answer = shared.client.request("POST", CHAT, b'{"model": "alpha", "messages": [}')

    assert (answer.status, answer.code) == (400, "invalid_json")
    assert shared.children() == []


@pytest.mark.parametrize("key", ["ck_wrong_key", "nonsense", "ck_", "é".encode().decode("latin-1")])
def test_a_wrong_key_is_refused(shared: Gateway, key: str) -> None:
    answer = shared.client.request("POST", CHAT, chat_body("alpha"), key=key)

    assert (answer.status, answer.code) == (401, "invalid_api_key")


def test_no_key_is_refused(shared: Gateway) -> None:
    answer = shared.client.request("POST", CHAT, chat_body("alpha"), key="")

    assert (answer.status, answer.code) == (401, "invalid_api_key")


def test_a_key_in_x_api_key_is_taken(shared: Gateway) -> None:
    headers = {"X-Api-Key": shared.key}
    answer = shared.client.request("POST", CHAT, chat_body("alpha"), key="", headers=headers)

    assert answer.status == 200


@pytest.mark.uvicorn_only
def test_a_wrong_key_is_refused_before_the_body_has_come(shared: Gateway) -> None:
    head = _head("Authorization: Bearer ck_wrong_key", f"Content-Length: {1 << 19}")

    assert _first_line(shared, head).startswith(b"HTTP/1.1 401 ")


def test_a_body_over_the_limit_is_refused(shared: Gateway) -> None:
    answer = shared.client.chat("alpha", padding="x" * (1 << 20))

    assert (answer.status, answer.code) == (413, "body_too_large")


@pytest.mark.uvicorn_only
def test_a_body_announced_over_the_limit_is_refused_before_it_has_come(shared: Gateway) -> None:
    head = _head(f"Authorization: Bearer {shared.key}", f"Content-Length: {1 << 40}")

    assert _first_line(shared, head).startswith(b"HTTP/1.1 413 ")


@pytest.mark.uvicorn_only
def test_headers_over_the_limit_are_refused(shared: Gateway) -> None:
    padding = [f"X-Padding-{number}: {'x' * 1000}" for number in range(40)]

    assert _first_line(shared, _head(*padding)).startswith(b"HTTP/1.1 431 ")


def test_an_unknown_path_is_not_found(shared: Gateway) -> None:
    answer = shared.client.request("POST", "/v1/nonsense", {"model": "alpha"})

    assert (answer.status, answer.code) == (404, "not_found")


def test_a_wrong_method_is_refused(shared: Gateway) -> None:
    answer = shared.client.request("DELETE", CHAT)

    assert answer.status == 405


def test_a_childs_own_refusal_comes_through(shared: Gateway) -> None:
    body = {"model": "alpha", "messages": "no list"}

    answer = shared.client.request("POST", CHAT, body)

    assert answer.status in (400, 500)
    assert json.loads(answer.body)["error"]["message"]


def _head(*lines: str) -> bytes:
    fixed = [f"POST {CHAT} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def _first_line(running: Gateway, sent: bytes) -> bytes:
    """What the server says to a head whose body never comes."""
    with socket.create_connection(("127.0.0.1", running.client.port), timeout=20) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as answer:
            return answer.readline()
