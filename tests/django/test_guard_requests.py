"""What the guard refuses, and how, before an application sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from routerproj.guard import ConnectionCut, Guard, GuardConfig
from tests.django.asgi_exchange import Exchange, scope

CONFIG = GuardConfig(max_body=100, body_timeout_seconds=30.0)


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def through(asked: dict[str, Any], config: GuardConfig = CONFIG) -> Exchange:
    exchange = Exchange()
    guard = Guard(hello, config, lambda path: path.startswith("/v1/"))
    await guard(asked, exchange.receive, exchange.send)
    return exchange


@pytest.mark.parametrize(
    "headers",
    [
        [(b"host", b"a"), (b"host", b"a")],
        [(b"host", b"a"), (b"content-length", b"1"), (b"content-length", b"1")],
        [(b"host", b"a"), (b"authorization", b"Bearer a"), (b"authorization", b"Bearer a")],
        [(b"host", b"a"), (b"content-length", b"1"), (b"transfer-encoding", b"chunked")],
        [(b"host", b"a"), (b"transfer-encoding", b"gzip, chunked")],
        [(b"host", b"a"), (b"content-length", b"+1")],
        [(b"host", b"a"), (b"content-length", b"1, 1")],
        [(b"host", b"a"), (b"daphne-root-path", b"/public")],
        [(b"host", b"gw/#@evil")],
        [(b"host", b"a b")],
        [(b"host", b"user@a")],
        [(b"host", b"")],
        [],
    ],
    ids=lambda headers: repr(headers)[:70],
)
async def test_headers_that_can_be_read_in_two_ways_are_refused(
    headers: list[tuple[bytes, bytes]],
) -> None:
    exchange = await through(scope(headers=headers))

    assert (exchange.status, exchange.code) == (400, "invalid_request")


@pytest.mark.parametrize(
    "raw",
    [
        b"/../admin/",
        b"/v1/../admin/",
        b"/v1/%2e%2e/admin/",
        b"/v1/.",
        b"/v1/%2E/models",
        b"/v1//models",
        b"/v1%2fmodels",
        b"/admin%2Flogin/",
        b"/v1%5cmodels",
        b"/v1\\models",
        b"/v1/%00",
        b"/v1/%0d%0aX:y",
        b"/v1/%252e%252e/admin/",
        b"/v1/%252fadmin",
        b"/v1/models/a%2f..%2f..%2fadmin",
        b"http://evil.example/admin/",
        b"*",
        b"",
    ],
)
async def test_a_path_that_is_not_normal_is_refused(raw: bytes) -> None:
    exchange = await through(scope(raw_path=raw))

    assert (exchange.status, exchange.code) == (400, "invalid_request")


@pytest.mark.parametrize(
    "raw",
    [b"/", b"/v1/models", b"/admin/", b"/v1/models/org%2Fname", b"/v1/a%20b", b"/models/a..b"],
)
async def test_a_plain_path_passes(raw: bytes) -> None:
    assert (await through(scope(raw_path=raw))).status == 200


async def test_a_root_path_that_the_server_took_from_a_header_is_refused() -> None:
    exchange = await through(scope() | {"root_path": "/public"})

    assert (exchange.status, exchange.code) == (400, "invalid_request")


async def test_http_1_0_needs_no_host() -> None:
    assert (await through(scope(headers=[]) | {"http_version": "1.0"})).status == 200


async def test_a_refusal_has_the_openai_shape_and_closes() -> None:
    exchange = await through(scope(raw_path=b"/.."))

    error = json.loads(exchange.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert exchange.headers[b"connection"] == b"close"
    assert exchange.headers[b"x-should-retry"] == b"false"
    assert exchange.headers[b"x-request-id"]


async def test_the_answer_carries_the_clients_request_id() -> None:
    exchange = await through(scope(headers=[(b"host", b"a"), (b"x-request-id", b"mine-1")]))

    assert exchange.headers[b"x-request-id"] == b"mine-1"


@pytest.mark.parametrize("odd", [b"a b", b"a\nb", b"x" * 200, b'"'])
async def test_an_odd_request_id_is_replaced(odd: bytes) -> None:
    exchange = await through(scope(headers=[(b"host", b"a"), (b"x-request-id", odd)]))

    assert exchange.headers[b"x-request-id"].startswith(b"req-")


@pytest.mark.parametrize(
    ("started", "status"), [(False, 500), (True, 200)], ids=["before the answer", "in the answer"]
)
async def test_an_exception_is_hidden_before_the_answer_and_cuts_it_after(
    started: bool, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("the inside story")

    exchange = Exchange()
    guard = Guard(broken, CONFIG, lambda path: False)
    try:
        await guard(scope(), exchange.receive, exchange.send)
        cut = False
    except ConnectionCut:
        cut = True

    assert (cut, exchange.status) == (started, status)
    assert b"inside story" not in exchange.body
    assert "inside story" in caplog.text


HOSTS = GuardConfig(100, 30.0, django_hosts=("localhost", ".lan.example"))
BROWSER = (b"accept", b"text/html,application/xhtml+xml,*/*;q=0.8")


@pytest.mark.parametrize(
    ("path", "headers"), [(b"/admin/", []), (b"/router/api/presets", [BROWSER])]
)
async def test_another_host_is_refused_for_djangos_paths_in_json_for_programs(
    path: bytes, headers: list[tuple[bytes, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "routerproj.guard")
    exchange = await through(scope(path, [(b"host", b"evil.example"), *headers]), HOSTS)

    assert (exchange.status, exchange.code) == (403, "host_not_allowed")
    assert "CORRAL_ALLOWED_HOSTS" in json.loads(exchange.body)["error"]["message"]
    assert len(caplog.records) == 1


async def test_another_host_is_refused_in_a_sentence_for_a_person() -> None:
    exchange = await through(scope(b"/admin/", [(b"host", b"evil.example:80"), BROWSER]), HOSTS)

    assert exchange.status == 403
    assert exchange.headers[b"content-type"].startswith(b"text/plain")
    assert exchange.body.startswith(b"The host 'evil.example' is not served here")


@pytest.mark.parametrize("host", [b"localhost:1", b"a.lan.example"])
async def test_an_allowed_host_reaches_django(host: bytes) -> None:
    assert (await through(scope(b"/admin/", [(b"host", host)]), HOSTS)).status == 200


async def test_the_gateways_own_paths_take_any_host_with_a_key() -> None:
    assert (await through(scope(b"/v1/models", [(b"host", b"evil.example")]), HOSTS)).status == 200
