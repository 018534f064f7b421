"""A1: everything asks who it is, but for a list that is short enough to be read."""

from __future__ import annotations

import base64
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.security.conftest import House
from tests.security.paths import (
    FOR_ANYBODY,
    LOG_IN,
    PUBLIC,
    Asked,
    of_the_api,
    of_the_gateway,
    of_the_pages,
    sockets,
)

SECRET = "A" * 43
CREDENTIALS = ["none", "garbage", "unknown", "wrong secret", "expired", "revoked", "two at once"]
BODY = {"model": "alpha", "prompt": "x", "name": "x"}


def headers_with(house: House, kind: str) -> dict[str, str]:
    wrong = house.reds[:-1] + ("A" if house.reds[-1] != "A" else "B")
    keys = {
        "garbage": "' OR '1'='1",
        "unknown": f"ck_aaaaaaaa_{SECRET}",
        "wrong secret": wrong,
        "expired": house.expired,
        "revoked": house.revoked,
        "two at once": house.reds,
    }
    headers = {} if kind == "none" else {"Authorization": f"Bearer {keys[kind]}"}
    return headers | ({"X-Api-Key": house.blues} if kind == "two at once" else {})


def status_of(house: House, asked: Asked, headers: dict[str, str]) -> int:
    method, path = asked
    body = BODY if method in ("POST", "PUT", "PATCH") else None
    return house.gateway.client.request(method, path, body, key="", headers=headers).status


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_the_gateway_and_the_management_api_answer_nobody(house: House, kind: str) -> None:
    """What does not exist is 404, or 405; what is not carried says so (501), to anybody."""
    headers = headers_with(house, kind)
    asked = [*of_the_gateway(), *of_the_api()]

    with ThreadPoolExecutor(16) as several:  # a key that nobody knows waits for a look-up
        statuses = several.map(lambda each: status_of(house, each, headers), asked)
        told = dict(zip(asked, statuses, strict=True))

    assert len(asked) > 120
    assert {e: s for e, s in told.items() if s not in (401, 404, 405, 426, 501)} == {}


def test_what_is_not_401_is_no_endpoint(house: House) -> None:
    """Otherwise the test above would pass for whatever answers 404 for another reason."""
    found = {each for each in of_the_gateway() if status_of(house, each, {}) not in (401,)}

    assert {path for _, path in found} <= {
        "/v1/nosuch", "/props", "/lora-adapters", "/slots/x", "/tools", "/cors-proxy", "/api/push",
        "/api/me", "/api/signout", "/api/user/keys/x", "/api/experimental/web_search",
        "/api/experimental/web_fetch", "/api/experimental/model-recommendations",
    }  # fmt: skip


def test_every_page_asks_for_a_log_in(house: House) -> None:
    """Neither a key nor an identity that a proxy would state is a session."""
    paths = [path for path in of_the_pages() if path not in LOG_IN | FOR_ANYBODY]
    stated = {
        "Authorization": f"Bearer {house.admin}",
        "X-Forwarded-User": "admin",
        "Remote-User": "admin",
        "X-Remote-User": "admin",
        "X-OpenWebUI-User-Email": "admin",
        "Cookie": f"sessionid={'a' * 32}",
    }

    assert len(paths) > 100
    for path in paths:
        answer = house.gateway.client.request("GET", path, key="", headers=stated)
        told = answer.headers.get("location", "")
        # Parts that an open page asks for again and again: nothing, for who is logged out meanwhile
        assert answer.status in (302, 301, 403, 404, 405) or (answer.status, answer.body) == (
            204,
            b"",
        ), path
        assert answer.status not in (301, 302) or "/login/" in told or told == f"{path}/", path


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example/", "https://evil.example/", "/\\evil.example"]
)
def test_the_choice_of_a_language_leads_nowhere_else(house: House, elsewhere: str) -> None:
    for path, headers in (
        (f"/language/?next={elsewhere}", {}),
        ("/language/", {"Referer": elsewhere}),
    ):
        answer = house.gateway.client.request("GET", path, key="", headers=headers)

        assert (answer.status, answer.headers["location"]) == (302, "/")


def test_a_public_path_tells_nothing_but_whether_it_can_serve(house: House) -> None:
    for path in PUBLIC:
        answer = house.gateway.client.request("GET", path, key="")
        assert answer.status == 200
        assert set(answer.json) <= {"status"}, path


@pytest.mark.parametrize("kind", CREDENTIALS)
@pytest.mark.parametrize("path", sockets())
def test_no_websocket_is_opened(house: House, kind: str, path: str) -> None:
    headers = headers_with(house, kind)

    assert handshake(house, f"{path}?model=alpha", headers) in (401, 403, 404)


def test_a_websocket_opens_with_a_key(house: House) -> None:
    headers = {"Authorization": f"Bearer {house.reds}"}

    assert handshake(house, "/models/ws", headers) == 101


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost.evil", "//"])
def test_no_page_from_elsewhere_opens_one_even_with_a_key(house: House, origin: str) -> None:
    headers = {"Authorization": f"Bearer {house.reds}", "Origin": origin}

    assert handshake(house, "/models/ws", headers) == 403


def test_a_key_in_the_address_opens_none(house: House) -> None:
    """It would stand in the logs of proxies and in the history of browsers."""
    assert handshake(house, f"/models/ws?api_key={house.reds}", {}) == 401


def handshake(house: House, path: str, headers: dict[str, str]) -> int:
    nonce = base64.b64encode(secrets.token_bytes(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {nonce}",
        *[f"{name}: {value}" for name, value in headers.items()],
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", house.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    "key",
    [
        "' OR '1'='1", "ck_aaaaaaaa_' OR 1=1--", "ck_%_" + SECRET, "\xff\xfe", "é" * 50, "ck__",
        "ck_aaaaaaaa_" + "A" * 3000, "Bearer Bearer", "ck_AAAAAAAA_" + SECRET, "null", "undefined",
        "ck_aaaaaaaa_" + SECRET + " ck_bbbbbbbb_" + SECRET, "-1", "0", "[]", "{}", "true",
    ],
)  # fmt: skip
@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key"])
def test_no_text_passes_for_a_key(house: House, key: str, header: str) -> None:
    value = f"Bearer {key}" if header == "Authorization" else key
    answer = house.gateway.client.request("GET", "/v1/models", key="", headers={header: value})

    assert (answer.status, answer.code) == (401, "invalid_api_key")
    assert len(key) < 12 or key not in answer.body.decode()


def test_a_forged_sender_changes_nothing(house: House) -> None:
    """A11: forwarded headers and identities of other gateways are not believed."""
    forged = {
        "X-Forwarded-For": "127.0.0.1",
        "X-Real-IP": "127.0.0.1",
        "X-Forwarded-User": "admin",
        "X-OpenWebUI-User-Id": "1",
        "X-OpenWebUI-User-Role": "admin",
        "X-Forwarded-Host": "localhost",
        "X-Original-URL": "/health",
        "X-Rewrite-URL": "/health",
        "X-HTTP-Method-Override": "GET",
        "Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
    }

    for path in ("/v1/models", "/router/api/keys", "/metrics"):
        assert status_of(house, ("GET", path), forged) == 401
