"""WebSockets through a whole gateway, under both servers, to a child that speaks them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from models_registry.engine_path import llama_server
from routerproj.servers.small_frames import A_SECOND, AT_ONCE, TOO_MANY
from tests.support import prepared
from tests.support.gateway import Gateway, gateway
from tests.support.polling import eventually

from .running import FAKE

pytestmark = [pytest.mark.slow, pytest.mark.engine]

BLOCK = b"x" * 65536
BLOCKS = 400
"""Twice what the sockets of two connections hold."""


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def running(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Room for one child; `deaf` is the real engine, which has no such endpoint."""
    folder = tmp_path_factory.mktemp(request.param)
    env = {
        "CORRAL_LLAMA_SERVER": str(_engine(folder)),
        "CORRAL_WEBSOCKET_QUIET": "0.5",
        "CORRAL_WEBSOCKET_MESSAGE": "100000",
        "CORRAL_MAX_WAIT": "0",
        "CORRAL_QUANTUM": "0",
        "CORRAL_CORS_ORIGINS": "https://chat.example",
    }
    models = {"alpha": {"seed": 1}, "beta": {"seed": 2}, "deaf": {"seed": 3}}
    args = ["--models-max", "1"]
    with gateway(folder, args=args, env=env, models=models, server=request.param) as started:
        yield started


def _engine(folder: Path) -> Path:
    """The stand-in for alpha and beta; measuring (its sockets are named m-…) is the real one's."""
    program = folder / "llama-server"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    */m-*.sock*) ;;
    *alpha.gguf*|*beta.gguf*) exec {sys.executable} {FAKE} "$@" ;;
esac
exec {llama_server()} "$@"
"""
    )
    program.chmod(0o755)
    return program


def opened(running: Gateway, target: str, **headers: str) -> connect:
    sent = {"Authorization": f"Bearer {running.key}"} | headers
    url = f"ws://127.0.0.1:{running.client.port}{target}"
    return connect(url, additional_headers=sent, proxy=None, open_timeout=60, max_size=None)


def realtime(running: Gateway, model: str = "alpha", **headers: str) -> connect:
    return opened(running, f"/v1/realtime?model={model}", **headers)


async def end_of(client: ClientConnection) -> tuple[int | None, str]:
    async with asyncio.timeout(60):
        await client.wait_closed()
    return client.close_code, client.close_reason or ""


async def refusal_of(connecting: connect) -> tuple[int, dict[str, Any]]:
    try:
        async with connecting:
            raise AssertionError("it was accepted")
    except InvalidStatus as refused:
        return refused.response.status_code, json.loads(refused.response.body or b"")


async def test_messages_pass_and_it_holds_a_slot_until_it_ends(running: Gateway) -> None:
    async with realtime(running, **{"X-Request-Id": "mine"}) as client:
        assert client.response is not None
        assert client.response.headers["x-request-id"] == "mine"
        for message in ("text", b"\x00\xff", "", "ü" * 40_000, b"y" * 90_000):
            await client.send(message)
            assert await client.recv() == message
        assert running.instance_of("alpha")["leases"] == 1
        async with asyncio.timeout(60):
            await (await client.ping())
        await client.close(4321, "good-bye")

    await asyncio.to_thread(
        eventually, lambda: running.instance_of("alpha")["leases"] == 0, "its slot is free"
    )


@pytest.mark.parametrize("kind", ["fragments", "pings", "messages"])
@pytest.mark.parametrize("target", ["/v1/realtime?model=alpha", "/models/ws"])
async def test_a_client_that_sends_small_frames_without_end_is_closed(
    running: Gateway, target: str, kind: str
) -> None:
    masked = b"\x80" + b"\0" * 4
    first, more = {
        "fragments": (b"\x01" + masked, b"\x00" + masked),
        "pings": (b"", b"\x89" + masked),
        "messages": (b"", b"\x81" + masked),
    }[kind]
    async with opened(running, target) as client:
        client.transport.write(first + more * (AT_ONCE + 50 * A_SECOND))
        code, reason = await end_of(client)

    assert (code, reason) == (1002, TOO_MANY)


async def test_how_the_child_closes_is_how_the_client_is_closed(running: Gateway) -> None:
    async with realtime(running) as client:
        await client.send("!close 1008 no more of this")

        assert await end_of(client) == (1008, "no more of this")


async def test_a_child_that_dies_is_told_of(running: Gateway) -> None:
    async with realtime(running) as client:
        await client.send("!die now")
        code, reason = await end_of(client)

        assert code == 1011
        assert reason.startswith("model_died: The instance of 'alpha' died of signal 9")


async def test_an_idle_one_makes_way_for_another_model(running: Gateway) -> None:
    async with realtime(running) as client:
        await client.send("hello")
        await client.recv()
        asked = asyncio.create_task(asyncio.to_thread(running.client.chat, "beta", max_tokens=2))
        code, reason = await end_of(client)

        assert code == 1012
        assert reason.startswith("model_stopped")
        assert (await asked).status == 200


async def test_one_on_which_something_is_said_ends_first(running: Gateway) -> None:
    async with realtime(running) as client:
        await client.send("!say 20 0.1")
        assert await client.recv() == "0"
        asked = asyncio.create_task(asyncio.to_thread(running.client.chat, "beta", max_tokens=2))

        assert [await client.recv() for _ in range(19)] == [f"{n}" for n in range(1, 20)]
        assert (await end_of(client))[0] == 1012
        assert (await asked).status == 200


async def test_a_client_that_does_not_read_stops_the_child(running: Gateway) -> None:
    """As far as the sockets between them hold: then nothing of it waits in the gateway."""
    async with realtime(running) as client:
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while sent < BLOCKS:
                await client.send(BLOCK)
                sent += 1

        flooding = asyncio.create_task(flood())
        client.transport.pause_reading()
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.5)
        assert sent < BLOCKS

        client.transport.resume_reading()
        for _ in range(BLOCKS):
            assert await client.recv() == BLOCK
        await flooding


async def test_what_is_too_large_is_refused_by_its_code(running: Gateway) -> None:
    async with realtime(running) as client:
        await client.send("x" * 100_001)
        assert (await end_of(client))[0] == 1009


async def test_refusals_are_those_of_any_other_request(running: Gateway) -> None:
    status, told = await refusal_of(realtime(running, "nosuch"))
    assert (status, told["error"]["code"]) == (404, "model_not_found")
    status, told = await refusal_of(realtime(running, Authorization="Bearer wrong"))
    assert (status, told["error"]["code"]) == (401, "invalid_api_key")
    status, told = await refusal_of(realtime(running, Origin="https://evil.example"))
    assert (status, told["error"]["code"]) == (403, "host_not_allowed")
    async with realtime(running, Origin="https://chat.example"):
        pass
    status, told = await refusal_of(realtime(running, "deaf"))
    assert (status, told["error"]["code"]) == (404, 404)


async def test_what_happens_to_models_is_told(running: Gateway) -> None:
    async with opened(running, "/models/ws") as client:
        first = json.loads(await client.recv())
        assert first["event"] == "snapshot"
        assert {model["id"] for model in first["data"]["models"]} == {"alpha", "beta", "deaf"}
        running.unload_all()
        async with realtime(running, "beta"):
            async with asyncio.timeout(60):
                while json.loads(await client.recv()).get("data", {}).get("status") != "loaded":
                    pass


async def test_one_that_its_killed_process_leaves_is_recorded_by_what_was_told(
    running: Gateway,
) -> None:
    async with realtime(running, **{"X-Request-Id": "left-open"}) as client:
        await client.send(json.dumps({"usage": {"input_tokens": 5, "output_tokens": 3}}))
        await client.recv()
        await asyncio.to_thread(running.kill, "web")
    await asyncio.to_thread(running.wait_ready)

    query = (
        "SELECT read, answered, estimated, charged, code FROM proxy_usagerecord "
        "WHERE request_id = 'left-open'"
    )
    recorded = await asyncio.to_thread(
        eventually, lambda: prepared.rows(running.var, query), "its record"
    )
    assert recorded == [(5, 3, True, True, "process_killed")]


async def test_a_stop_closes_all_with_1012(running: Gateway) -> None:
    """The last test: nothing is served after it."""
    async with realtime(running) as quiet, opened(running, "/models/ws") as listener:
        await listener.recv()
        running.interrupt()

        assert (await end_of(quiet))[0] == 1012
        with pytest.raises(ConnectionClosed):
            await _read_on(listener)
        assert listener.close_code == 1012
    assert await asyncio.to_thread(running.process.wait, 60) == 0


async def _read_on(listener: ClientConnection) -> None:
    while True:
        await listener.recv()
