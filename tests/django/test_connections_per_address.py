"""G3: one address cannot take what all are to share, with and without a proxy of ours before us."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ipaddress import ip_network
from typing import Any

import pytest

from routerproj.addresses import house_of
from routerproj.behind_proxies import BehindProxies
from routerproj.servers import uvicorn_protocol
from routerproj.servers.uvicorn_sockets import SocketProtocol
from tests.django.asgi_exchange import Exchange, scope
from tests.django.uvicorn_connections import Connect, server

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PROXIES = (ip_network("10.0.0.0/8"),)


async def answers(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hi"})


async def first_line(connect: Connect, sent: bytes = GET) -> tuple[bytes, asyncio.StreamWriter]:
    reader, writer = await connect()
    writer.write(sent)
    line = b""
    with suppress(ConnectionResetError):
        line = await reader.readline()
    return line, writer


@pytest.fixture
def one_house(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own connections are counted, as if they came from elsewhere."""
    monkeypatch.setattr(uvicorn_protocol, "house_of", lambda address: "somebody's")


@pytest.mark.usefixtures("one_house")
@pytest.mark.parametrize("sent", [GET, UPGRADE], ids=["http", "websocket"])
async def test_one_address_cannot_take_all_connections(sent: bytes) -> None:
    async with server(answers, ws=SocketProtocol, max_connections=9, max_per_address=2) as connect:
        first, leaving = await first_line(connect, sent)
        second, _ = await first_line(connect, sent)
        refused, turned_away = await first_line(connect)
        turned_away.close()
        leaving.close()
        after = b""
        while b"200" not in after:  # as soon as the server has seen it leave
            after, writer = await first_line(connect)
            writer.close()
            await asyncio.sleep(0.01)  # one that was refused counts until it has left, too

    assert first == second != refused
    assert b" 503 " in refused


@pytest.mark.usefixtures("one_house")
async def test_what_is_too_much_is_cut_without_a_word_in_the_end() -> None:
    """Each refused connection may stay for as long as its head may take: those are few, too."""
    few = uvicorn_protocol.SPARE_CONNECTIONS + 1
    async with server(answers, max_connections=500, max_per_address=1) as connect:
        held = [await connect() for _ in range(few)]
        line, _ = await first_line(connect)

        assert line == b""
        assert not any(reader.at_eof() for reader, _ in held)


async def test_this_machines_own_are_not_counted() -> None:
    async with server(answers, max_connections=9, max_per_address=1) as connect:
        lines = [(await first_line(connect))[0] for _ in range(3)]

    assert all(b" 200 " in line for line in lines)


@pytest.mark.parametrize(
    ("address", "house"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("127.0.0.9", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("", ""),
        ("somewhere", ""),
    ],
)
def test_an_address_is_counted_with_all_that_its_holder_has(address: str, house: str) -> None:
    assert house_of(address) == house


class Held:
    """Requests that are under way until `end` is set."""

    def __init__(self, most: int) -> None:
        self.end = asyncio.Event()
        self.limited = BehindProxies(self._answer, most, PROXIES)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.end.wait()
        await answers(scope, receive, send)

    def ask(self, peer: str, forwarded: str) -> tuple[Exchange, asyncio.Task[None]]:
        asked = scope(headers=[(b"host", b"a"), (b"x-forwarded-for", forwarded.encode())])
        exchange = Exchange()
        asking = self.limited({**asked, "client": (peer, 1)}, exchange.receive, exchange.send)
        return exchange, asyncio.ensure_future(asking)


async def test_behind_a_proxy_of_ours_it_is_by_whom_the_proxy_names(settings: Any) -> None:
    settings.CORRAL_TRUSTED_PROXIES = PROXIES
    held = Held(most=1)
    asked = [
        held.ask("10.0.0.1", "192.0.2.7"),
        held.ask("10.0.0.2", "198.51.100.1, 192.0.2.7"),  # who it is, is what our proxy has added
        held.ask("10.0.0.1", "192.0.2.8"),
        held.ask("192.0.2.9", "192.0.2.7"),  # no proxy of ours: the server has counted it
        held.ask("10.0.0.1", "nobody"),
    ]
    await asyncio.sleep(0)
    held.end.set()
    await asyncio.gather(*(task for _, task in asked))
    again, task = held.ask("10.0.0.1", "192.0.2.7")
    await task

    assert [exchange.status for exchange, _ in asked] == [200, 503, 200, 200, 200]
    assert again.status == 200
