"""A gateway without keys is for this machine: not for web pages that its browser shows."""

from __future__ import annotations

from typing import Any

import pytest

from routerproj.guard import Guard, GuardConfig
from tests.django.asgi_exchange import Exchange, scope

HOSTS = ("localhost", "127.0.0.1", "[::1]", ".lan.example")


async def status(
    *headers: tuple[bytes, bytes],
    raw_path: bytes = b"/v1/models",
    hosts: tuple[str, ...] | None = HOSTS,
    origins: tuple[str, ...] = (),
) -> int:
    async def hello(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    config = GuardConfig(100, 30.0, open_hosts=hosts, open_origins=origins)
    exchange = Exchange()
    guard = Guard(hello, config, lambda path: path.startswith("/v1/"))
    await guard(scope(raw_path, list(headers)), exchange.receive, exchange.send)
    return exchange.status


@pytest.mark.parametrize(
    "host", [b"localhost", b"localhost:8080", b"127.0.0.1:1", b"[::1]:8080", b"a.lan.example"]
)
async def test_an_allowed_host_passes(host: bytes) -> None:
    assert await status((b"host", host)) == 200


@pytest.mark.parametrize("host", [b"evil.example", b"evil.example:8080", b"localhost.evil.example"])
async def test_a_name_that_was_rebound_to_this_machine_is_refused(host: bytes) -> None:
    assert await status((b"host", host)) == 403


async def test_with_keys_the_host_does_not_matter() -> None:
    assert await status((b"host", b"10.0.0.7:8080"), hosts=None) == 200


async def test_djangos_paths_are_djangos_to_check() -> None:
    assert await status((b"host", b"evil.example"), raw_path=b"/admin/") == 200


async def test_a_page_from_elsewhere_is_refused() -> None:
    assert await status((b"host", b"localhost"), (b"origin", b"https://evil.example")) == 403


async def test_a_sandboxed_page_is_refused() -> None:
    assert await status((b"host", b"localhost"), (b"origin", b"null")) == 403


@pytest.mark.parametrize(
    "origin", [b"http://[::1", b"http://[", b"http://]", b"http://[v9.x]", b"\xff\xfe", b"//"]
)
async def test_an_origin_that_is_none_is_refused(origin: bytes) -> None:
    assert await status((b"host", b"localhost"), (b"origin", origin)) == 403


async def test_a_page_from_this_machine_passes() -> None:
    assert await status((b"host", b"localhost"), (b"origin", b"http://localhost:3000")) == 200


async def test_a_page_that_cors_allows_passes() -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"https://chat.example")]

    assert await status(*headers, origins=("https://chat.example",)) == 200
