"""A whole gateway under our uvicorn protocol, a child that speaks WebSocket, and real clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from proxy.conf import ProxyConfig
from proxy.consumers import GatewayApp
from routerproj.guard import GuardConfig
from routerproj.servers.uvicorn_sockets import SocketProtocol
from routerproj.wiring import Wiring
from tests.django.uvicorn_connections import server

from .conftest import NoDownloads
from .fakes import FakeScheduler, KeptUsage

Speak = Callable[[ServerConnection], Awaitable[None]]
TARGET = "/v1/realtime?model=tiny"


async def echo(child: ServerConnection) -> None:
    async for message in child:
        await child.send(message)


@dataclass
class SocketHouse:
    app: GatewayApp
    wiring: Wiring
    scheduler: FakeScheduler
    port: int
    usage: KeptUsage
    seen: list[ServerConnection]
    """The child's connections, in their order."""

    def connect(
        self, target: str = TARGET, headers: dict[str, str] | None = None, **options: Any
    ) -> connect:
        names = [Subprotocol(name) for name in options.pop("subprotocols", [])]
        return connect(
            f"ws://127.0.0.1:{self.port}{target}",
            additional_headers=headers,
            subprotocols=names or None,
            proxy=None,
            **{"close_timeout": 5, **options},
        )


@asynccontextmanager
async def socket_house(
    folder: Path,
    speak: Speak = echo,
    *,
    keys: Any = None,
    guard: dict[str, Any] | None = None,
    server_limits: dict[str, Any] | None = None,
    choose: Any = None,
    **settings: Any,
) -> AsyncIterator[SocketHouse]:
    """`settings` are the gateway's; `choose` picks the child's sub-protocol."""
    config = ProxyConfig(
        control_socket=folder / "control.sock",
        temp_folder=folder / "tmp",
        usage_folder=folder / "usage",
        secret_key="for tests",
        **{"no_auth": keys is None, **settings},
    )
    seen: list[ServerConnection] = []

    async def spoken(child: ServerConnection) -> None:
        seen.append(child)
        with suppress(ConnectionClosed):
            await speak(child)

    path = folder / "child.sock"
    scheduler = FakeScheduler([str(path)])
    usage = KeptUsage()
    app = GatewayApp(
        config,
        scheduler=scheduler,  # type: ignore[arg-type]
        keys=keys,
        downloads=NoDownloads(),  # type: ignore[arg-type]
        usage=usage,  # type: ignore[arg-type]
    )

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("Django was asked")

    limits = GuardConfig(max_body=1 << 20, body_timeout_seconds=5.0, **(guard or {}))
    wiring = Wiring(app, nothing, limits)
    async with (
        unix_serve(spoken, str(path), select_subprotocol=choose, max_size=1 << 22, close_timeout=1),
        server(wiring.application, ws=SocketProtocol, **(server_limits or {})) as open_connection,
    ):
        _, probe = await open_connection()
        port = probe.get_extra_info("peername")[1]
        yield SocketHouse(app, wiring, scheduler, port, usage, seen)
        await app.close()


async def end_of(client: ClientConnection) -> tuple[int | None, str | None]:
    """The code and the reason with which it was closed."""
    async with asyncio.timeout(20):
        await client.wait_closed()
    return client.close_code, client.close_reason


async def refusal_of(connecting: connect) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer that refused it."""

    try:
        async with connecting:
            raise AssertionError("it was accepted")
    except InvalidStatus as refused:
        answer = refused.response
        return answer.status_code, dict(answer.headers.raw_items()), bytes(answer.body or b"")
