"""Which path goes where, through the whole application."""

from __future__ import annotations

from typing import Any

import pytest

from routerproj.guard import GuardConfig
from routerproj.wiring import Wiring
from tests.django.asgi_exchange import HOST, Exchange, scope

ORIGIN = (b"origin", b"https://chat.example")


class Stub:
    """Says its own name."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.drained: list[float] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.name})

    async def drain(self, timeout_seconds: float) -> None:
        self.drained.append(timeout_seconds)


class Echo(Stub):
    """Says what it was asked, and with which key."""

    def __init__(self) -> None:
        super().__init__(b"echo")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        key = dict(scope["headers"]).get(b"authorization", b"")
        self.name = b"\n".join([scope["path"].encode(), scope["raw_path"], key])
        await super().__call__(scope, receive, send)


def wired(
    *origins: str, ollama_port: int | None = None, gateway: Stub | None = None
) -> tuple[Wiring, Stub]:
    gateway = gateway or Stub(b"gateway")
    guard = GuardConfig(max_body=100, body_timeout_seconds=30.0)
    django = Stub(b"django")
    wiring = Wiring(gateway, django, guard, origins, ollama_port=ollama_port)  # type: ignore[arg-type]
    return wiring, gateway


async def ask(wiring: Wiring, asked: dict[str, Any]) -> Exchange:
    exchange = Exchange()
    await wiring.application(asked, exchange.receive, exchange.send)
    return exchange


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/v1/chat/completions", b"gateway"),
        (b"/v1/unknown", b"gateway"),
        (b"/models", b"gateway"),
        (b"/health", b"gateway"),
        (b"/", b"django"),
        (b"/admin/", b"django"),
        (b"/static/admin/css/base.css", b"django"),
    ],
)
async def test_a_path_goes_to_who_answers_it(path: bytes, expected: bytes) -> None:
    wiring, _ = wired()

    assert (await ask(wiring, scope(path))).body == expected


async def test_without_origins_there_are_no_cors_headers() -> None:
    wiring, _ = wired()

    exchange = await ask(wiring, scope(headers=[*HOST, ORIGIN]))

    assert not any(name.startswith(b"access-control") for name in exchange.headers)


@pytest.mark.parametrize("allowed", ["https://chat.example", "https://chat.example/", "*"])
async def test_a_named_origin_may_call_but_never_with_credentials(allowed: str) -> None:
    wiring, _ = wired(allowed)

    exchange = await ask(wiring, scope(headers=[*HOST, ORIGIN]))

    assert exchange.headers[b"access-control-allow-origin"] in (b"https://chat.example", b"*")
    assert b"access-control-allow-credentials" not in exchange.headers
    assert b"x-request-id" in exchange.headers[b"access-control-expose-headers"].lower()


async def test_localhost_stands_for_any_port_of_it() -> None:
    wiring, _ = wired("localhost")

    from_here = await ask(wiring, scope(headers=[*HOST, (b"origin", b"http://localhost:3000")]))
    from_there = await ask(wiring, scope(headers=[*HOST, (b"origin", b"http://localhost.evil")]))

    assert b"access-control-allow-origin" in from_here.headers
    assert b"access-control-allow-origin" not in from_there.headers


async def test_a_preflight_is_answered_without_a_key() -> None:
    wiring, _ = wired("https://chat.example")
    asks = (b"access-control-request-method", b"POST")
    names = (b"access-control-request-headers", b"authorization,content-type")

    exchange = await ask(wiring, scope(headers=[*HOST, ORIGIN, asks, names], method="OPTIONS"))

    assert exchange.status == 200
    assert b"authorization" in exchange.headers[b"access-control-allow-headers"].lower()


async def test_the_admin_is_not_opened_by_cors() -> None:
    wiring, _ = wired("*")

    exchange = await ask(wiring, scope(b"/admin/", headers=[*HOST, ORIGIN]))

    assert b"access-control-allow-origin" not in exchange.headers


@pytest.mark.parametrize("path", [b"/v1/realtime", b"/models/ws", b"/admin/", b"/"])
async def test_every_websocket_is_the_gateways(path: bytes) -> None:
    wiring, _ = wired()

    assert (await ask(wiring, scope(path) | {"type": "websocket"})).body == b"gateway"


async def test_a_server_that_only_knows_lifespan_drains_at_its_end() -> None:
    wiring, gateway = wired()
    to_come = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return to_come.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await wiring.application({"type": "lifespan"}, receive, send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert gateway.drained == [0.0]


async def test_the_gateway_is_drained_once() -> None:
    wiring, gateway = wired()

    await wiring.drain(3.0)
    await wiring.drain(0.0)

    assert gateway.drained == [3.0]


@pytest.mark.parametrize(
    ("port", "method", "path", "expected"),
    [
        (11434, "GET", b"/", (200, b"Ollama is running")),
        (11434, "HEAD", b"/", (200, b"")),
        (11434, "POST", b"/", (404, b"404 page not found")),
        (11434, "GET", b"/admin/", (404, b"404 page not found")),
        (11434, "GET", b"/v1/models", (200, b"gateway")),
        (8080, "GET", b"/", (200, b"django")),
        (8080, "GET", b"/admin/", (200, b"django")),
    ],
)
async def test_ollamas_port_has_its_own_root_and_no_admin(
    port: int, method: str, path: bytes, expected: tuple[int, bytes]
) -> None:
    wiring, _ = wired(ollama_port=11434)

    answer = await ask(wiring, scope(path, method=method) | {"server": ("127.0.0.1", port)})

    assert (answer.status, answer.body) == expected


KEY = "ck_abcdefgh_" + "aZ0_-" * 8 + "abc"


@pytest.mark.parametrize(
    ("port", "path", "headers", "told"),
    [
        (11434, f"/{KEY}/api/tags", [], ["/api/tags", "/api/tags", f"Bearer {KEY}"]),
        (
            11434, f"/{KEY}/api/blobs/sha256%3Aa", [],
            ["/api/blobs/sha256:a", "/api/blobs/sha256%3Aa", f"Bearer {KEY}"],
        ),
        (11434, f"/{KEY}/", [], "Ollama is running"),
        (11434, f"/{KEY}/admin/", [], "404 page not found"),
        (11434, f"/{KEY}", [], "404 page not found"),
        (11434, f"/{KEY[:-1]}/api/tags", [], "404 page not found"),
        (11434, f"/{KEY}/{KEY}/api/tags", [], "404 page not found"),
        (11434, f"/{KEY}//api/tags", [], "404 page not found"),
        (11434, f"/{KEY}/api/tags", [(b"authorization", b"Bearer x")], 400),
        (8080, f"/{KEY}/api/tags", [], "django"),
    ],
)  # fmt: skip
async def test_on_ollamas_port_a_path_may_begin_with_the_key(
    port: int, path: str, headers: list[tuple[bytes, bytes]], told: Any
) -> None:
    wiring, _ = wired(ollama_port=11434, gateway=Echo())
    asked = scope(path.encode(), [*HOST, *headers]) | {"server": ("127.0.0.1", port)}

    answer = await ask(wiring, asked)

    if isinstance(told, int):
        assert answer.status == told
    else:
        said = answer.body.decode()
        assert (said.split("\n") if isinstance(told, list) else said) == told


async def test_a_request_by_a_session_reaches_the_gateway_by_its_own_path_and_never_by_cors() -> (
    None
):
    wiring, _ = wired("https://chat.example", gateway=Echo())

    asked = scope(b"/account/playground/teams/1/v1/models", headers=[*HOST, ORIGIN])
    exchange = await ask(wiring, asked)

    assert exchange.body.split(b"\n")[:2] == [b"/v1/models", b"/v1/models"]
    assert b"access-control-allow-origin" not in exchange.headers
