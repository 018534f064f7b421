"""Who may open a WebSocket, how many, and how one ends whose client has gone or does not read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import InvalidStatus

from proxy.callers import Caller
from routerproj.guard_rules import is_own_origin

from .asking import until
from .socket_house import TARGET, refusal_of, socket_house

HANDSHAKE = (
    b"GET /v1/realtime?model=tiny HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
BLOCK = b"x" * 65536


@pytest.mark.parametrize(
    ("host", "origin", "own"),
    [
        (b"gpu:8080", b"http://gpu:8080", True),
        (b"GPU:8080", b"http://gpu:8080", True),
        (b"gpu", b"https://gpu", True),  # behind a proxy that speaks TLS
        (b"gpu", b"https://gpu:443", True),
        (b"[::1]:8080", b"http://[::1]:8080", True),
        (b"gpu:8080", b"http://gpu:9090", False),
        (b"gpu:8080", b"http://gpu", False),
        (b"gpu:8080", b"http://evil.example:8080", False),
        (b"gpu:8080", b"null", False),
        (b"gpu:8080", b"", False),
        (b"gpu", b"file://", False),
        (b"gpu", b"http://gpu:port", False),
        (b"gpu", b"http://[", False),
    ],
)
def test_our_own_pages_are_those_of_the_host_that_was_asked(
    host: bytes, origin: bytes, own: bool
) -> None:
    assert is_own_origin({"headers": [(b"host", host), (b"origin", origin)]}) is own


async def test_other_pages_open_none_unless_they_may(tmp_path: Path) -> None:
    guard = {"open_origins": ("https://chat.example", "localhost")}
    async with socket_house(tmp_path, guard=guard) as house:
        own = f"http://127.0.0.1:{house.port}"
        for origin in (own, "https://chat.example", "http://localhost:3000"):
            async with house.connect(headers={"Origin": origin}) as client:
                await client.send("hello")
                assert await client.recv() == "hello"
        for origin in ("https://evil.example", "null", "http://localhost.evil", "https://chat"):
            for target in (TARGET, "/models/ws"):
                status, _, body = await refusal_of(house.connect(target, {"Origin": origin}))
                assert (status, json.loads(body)["error"]["code"]) == (403, "host_not_allowed")


async def test_an_open_gateway_is_reached_by_its_own_names_alone(tmp_path: Path) -> None:
    async with socket_house(tmp_path, guard={"open_hosts": ("127.0.0.1",)}) as house:
        async with house.connect():
            pass
        status, _, _ = await refusal_of(house.connect(headers={"Host": "rebound.example"}))

        assert status in (400, 403)  # two hosts, or a host that is not ours


async def test_what_could_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        status, headers, body = await refusal_of(house.connect("/v1/%2e%2e/realtime?model=a"))

        assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_request")
        assert headers["x-request-id"].startswith("req-")


async def test_so_many_are_open_at_once_and_no_more(tmp_path: Path) -> None:
    async with socket_house(tmp_path, guard={"max_sockets": 1}) as house:
        async with house.connect():
            status, headers, body = await refusal_of(house.connect())
            assert (status, headers["retry-after"]) == (503, "1")
            assert "CORRAL_WEBSOCKETS" in json.loads(body)["error"]["message"]
        async with asyncio.timeout(20):
            while not await opens(house.connect()):
                pass


class TeamByKey:
    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: Any) -> Caller:
        return Caller(dict(headers)[b"x-api-key"].decode())

    async def close(self) -> None:
        pass


async def test_no_team_takes_those_that_all_are_to_share(tmp_path: Path) -> None:
    async with socket_house(tmp_path, keys=TeamByKey(), websockets_of_team=1) as house:
        reds, blues = {"X-Api-Key": "reds"}, {"X-Api-Key": "blues"}
        async with house.connect(headers=reds), house.connect(headers=blues):
            status, headers, body = await refusal_of(house.connect(headers=reds))
            assert (status, headers["retry-after"]) == (503, "1")
            assert json.loads(body)["error"]["code"] == "too_many_connections"
        async with asyncio.timeout(20):
            while not await opens(house.connect(headers=reds)):
                pass


async def opens(connecting: connect) -> bool:
    try:
        async with connecting:
            return True
    except InvalidStatus:
        return False


async def test_a_client_that_answers_no_ping_is_gone(tmp_path: Path) -> None:
    async with socket_house(tmp_path, server_limits={"ping_seconds": 0.1}) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        await until(lambda: house.seen and house.seen[0].close_code)

        assert house.seen[0].close_code == 1001
        await house.scheduler.until_all_released()
        writer.close()


async def test_a_client_that_waits_for_a_slow_child_is_not_gone(tmp_path: Path) -> None:
    reading = asyncio.Event()
    got = 0

    async def wait(child: ServerConnection) -> None:
        nonlocal got
        await reading.wait()
        async for _ in child:
            got += 1

    limits = {"ping_seconds": 0.3}
    async with (
        socket_house(tmp_path, wait, server_limits=limits) as house,
        house.connect() as client,
    ):
        flooding = asyncio.create_task(_send(client, 200))
        await asyncio.sleep(1.2)  # its pongs wait behind what nobody takes
        assert not flooding.done()
        reading.set()
        await flooding
        await until(lambda: got == 200)
        async with asyncio.timeout(20):
            await (await client.ping())


async def _send(client: Any, count: int) -> None:
    for _ in range(count):
        await client.send(BLOCK)


async def test_a_client_that_does_not_read_is_cut_in_the_end(tmp_path: Path) -> None:
    async def flood(child: ServerConnection) -> None:
        while True:
            await child.send(BLOCK)

    limits = {"slow_reader_timeout_seconds": 0.4}
    async with (
        socket_house(tmp_path, flood, server_limits=limits) as house,
        house.connect(max_queue=1, close_timeout=0.1),
    ):
        await until(lambda: house.seen and house.seen[0].close_code)

        assert house.seen[0].close_code == 1001
        await house.scheduler.until_all_released()


async def test_who_speaks_before_the_answer_is_cut(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.open.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        writer.write(HANDSHAKE)
        await until(lambda: house.scheduler.waiting == 1)
        writer.write(b"\x81\x80abcd" * 1000)
        async with asyncio.timeout(20):
            assert await reader.read() == b""

        await until(lambda: house.scheduler.waiting == 0)
        writer.close()
