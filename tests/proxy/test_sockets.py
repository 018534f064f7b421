"""A child's WebSocket is carried both ways, and ends as it should."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from proxy.callers import Caller, Policy
from scheduler.protocol import Refused, Remote, TimeLimits

from .asking import until
from .fakes import CRASH, STOPPED
from .socket_house import TARGET, echo, end_of, refusal_of, socket_house

BLOCK = b"x" * 65536


class OneKey:
    """Knows one."""

    async def identify(self, headers: Any, by_session: object = None) -> Caller:
        given = {value for name, value in headers if name == b"authorization"}
        if given != {b"Bearer good"}:
            raise Refused("invalid_api_key", "An API key is needed.")
        return Caller("blue", policy=Policy(2.0, "high"))

    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def close(self) -> None:
        pass


async def test_messages_pass_both_ways_as_they_are(tmp_path: Path) -> None:
    said: list[str | bytes] = ["text", b"\x00\xff", "", b"", "ü€😀", "x" * 300_000, b"y" * 300_000]
    async with socket_house(tmp_path) as house, house.connect(max_size=None) as client:
        for message in said:
            await client.send(message)
            assert await client.recv() == message
        async with asyncio.timeout(20):
            await (await client.ping())


async def test_a_message_in_fragments_arrives_whole(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house, house.connect() as client:
        await client.send(["a", "b", "", "c"])

        assert await client.recv() == "abc"


async def test_it_is_a_lease_of_its_own_kind_until_it_is_closed(tmp_path: Path) -> None:
    async with socket_house(tmp_path, keys=OneKey()) as house:
        headers = {"Authorization": "Bearer good", "X-Request-Id": "mine"}
        async with house.connect(TARGET + "&autoload=false", headers) as client:
            assert client.response is not None
            assert client.response.headers["x-request-id"] == "mine"
            [asked] = house.scheduler.asked
            assert (asked.kind, asked.preset, asked.tenant) == ("websocket", "tiny", "blue")
            assert (asked.weight, asked.priority, asked.request) == (2.0, "high", "mine")
            assert not asked.autoload
            assert len(house.scheduler.held) == 1

        await house.scheduler.until_all_released()


async def test_secrets_stay_here_and_the_rest_goes_to_the_child(tmp_path: Path) -> None:
    async with socket_house(tmp_path, keys=OneKey()) as house:
        headers = {
            "Authorization": "Bearer good",
            "Cookie": "sessionid=1",
            "OpenAI-Beta": "realtime=v1",
            "Origin": f"http://127.0.0.1:{house.port}",
        }
        target = TARGET + "&api_key=secret&api%5Fkey=secret&voice=a%20b"
        async with house.connect(target, headers):
            [child] = house.seen
            assert child.request is not None
            assert child.request.path == TARGET + "&voice=a%20b"
            got = dict(child.request.headers.raw_items())
            assert got["openai-beta"] == "realtime=v1"
            assert got["x-request-id"].startswith("req-")
            names = {name.lower() for name in got}
            assert not names & {"authorization", "cookie", "origin", "sec-websocket-protocol"}


async def test_a_browsers_key_comes_as_a_sub_protocol_and_is_not_passed_on(tmp_path: Path) -> None:
    offered = ["realtime", "openai-insecure-api-key.good", "openai-beta.realtime-v1"]
    async with (
        socket_house(tmp_path, keys=OneKey()) as house,
        house.connect(subprotocols=offered) as client,
    ):
        assert client.subprotocol == "realtime"
        [child] = house.seen
        assert child.request is not None
        told = child.request.headers["sec-websocket-protocol"]
        assert told == "realtime, openai-beta.realtime-v1"


async def test_the_childs_choice_of_sub_protocol_is_the_clients(tmp_path: Path) -> None:
    async with (
        socket_house(tmp_path, choose=lambda child, offered: offered[-1]) as house,
        house.connect(subprotocols=["realtime", "other"]) as client,
    ):
        assert client.subprotocol == "other"


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("/v1/realtime", 400, "model_missing"),
        ("/v1/realtime?model=a&model=b", 400, "invalid_request"),
        ("/v1/realtime?model=", 400, "model_missing"),
        ("/v1/other?model=a", 404, "not_found"),
    ],
)
async def test_what_cannot_be_carried_is_refused_with_an_http_answer(
    tmp_path: Path, target: str, status: int, code: str
) -> None:
    async with socket_house(tmp_path) as house:
        got, headers, body = await refusal_of(house.connect(target))

        assert (got, json.loads(body)["error"]["code"]) == (status, code)
        assert headers["x-request-id"].startswith("req-")
        assert house.scheduler.asked == []


async def test_a_child_is_asked_for_the_model_by_its_own_name(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.model = "org/model name"
        async with house.connect("/v1/realtime?a=b&model=tiny&c=d"):
            [child] = house.seen
            assert child.request is not None
            assert child.request.path == "/v1/realtime?a=b&model=org%2Fmodel%20name&c=d"


async def test_a_child_that_does_not_answer_the_handshake_is_given_up(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with socket_house(tmp_path) as house:
        house.scheduler.addresses = [str(tmp_path / "silent.sock")]
        house.scheduler.limits = TimeLimits(first_byte=0.1)
        async with await asyncio.start_unix_server(silent, house.scheduler.addresses[0]):
            status, _, body = await refusal_of(house.connect())

        assert (status, json.loads(body)["error"]["code"]) == (504, "first_byte_timeout")
        assert "within 0.1 s" in json.loads(body)["error"]["message"]
        await house.scheduler.until_all_released()


async def test_nothing_is_carried_to_a_remote_server(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.remotes = [Remote("https://far.example")]
        status, _, body = await refusal_of(house.connect())

        assert (status, json.loads(body)["error"]["code"]) == (501, "not_supported")
        await house.scheduler.until_all_released()


async def test_no_key_and_a_key_in_the_address_are_refused(tmp_path: Path) -> None:
    async with socket_house(tmp_path, keys=OneKey()) as house:
        for target in (TARGET, TARGET + "&api_key=good"):
            status, headers, body = await refusal_of(house.connect(target))
            assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")
            assert headers["www-authenticate"] == "Bearer"


async def test_the_schedulers_refusal_reaches_the_client(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.refusal = Refused("queue_full", "full", retry_after_seconds=7.0)
        status, headers, _ = await refusal_of(house.connect())

        assert (status, headers["retry-after"]) == (503, "7")


async def test_a_child_without_such_an_endpoint_answers_for_itself(tmp_path: Path) -> None:
    async def refuse(child: ServerConnection) -> None:
        raise AssertionError("it was not accepted")

    async with socket_house(tmp_path, refuse) as house:
        house.scheduler.addresses = [str(tmp_path / "http.sock")]

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            body = b'{"error":{"code":404}}'
            head = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nServer: x\r\n"
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            writer.close()

        async with await asyncio.start_unix_server(answer, house.scheduler.addresses[0]):
            status, headers, body = await refusal_of(house.connect())

        assert (status, body) == (404, b'{"error":{"code":404}}')
        assert headers["content-type"] == "application/json"
        await house.scheduler.until_all_released()


async def test_a_client_that_leaves_while_it_waits_leaves_the_queue(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.open.clear()
        connecting = asyncio.ensure_future(house.connect().__aenter__())
        await until(lambda: house.scheduler.waiting == 1)
        connecting.cancel()

        await until(lambda: house.scheduler.waiting == 0)
        assert house.seen == []


@pytest.mark.parametrize("code", [1000, 1001, 3000, 4321])
async def test_how_the_client_closes_is_how_the_child_is_closed(tmp_path: Path, code: int) -> None:
    async with socket_house(tmp_path) as house:
        async with house.connect() as client:
            await client.close(code, "good-bye")
        [child] = house.seen
        await until(lambda: child.close_code is not None)

        assert (child.close_code, child.close_reason) == (code, "good-bye")
        await house.scheduler.until_all_released()


async def test_a_client_that_vanishes_closes_the_child(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        async with house.connect() as client:
            client.transport.abort()
        [child] = house.seen
        await until(lambda: child.close_code is not None)

        assert child.close_code == 1001
        await house.scheduler.until_all_released()


@pytest.mark.parametrize(
    ("code", "reason"), [(1000, ""), (1001, "later"), (1008, "ü"), (4000, "x")]
)
async def test_how_the_child_closes_is_how_the_client_is_closed(
    tmp_path: Path, code: int, reason: str
) -> None:
    async def close(child: ServerConnection) -> None:
        await child.send("last")
        await child.close(code, reason)

    async with socket_house(tmp_path, close) as house, house.connect() as client:
        assert await client.recv() == "last"
        assert await end_of(client) == (code, reason)
        await house.scheduler.until_all_released()


async def die(child: ServerConnection) -> None:
    await child.send("last")
    child.transport.abort()


@pytest.mark.parametrize(
    ("ended", "code", "words"),
    [
        (CRASH, 1011, "model_died: The instance of 'tiny' died of signal 9"),
        (STOPPED, 1012, "model_stopped: The instance of 'tiny' was stopped (evicted)."),
        (None, 1011, "model_died: The connection to the instance of 'tiny' broke."),
    ],
)
async def test_a_child_that_goes_without_a_word_is_told_of(
    tmp_path: Path, ended: Any, code: int, words: str
) -> None:
    async with socket_house(tmp_path, die) as house, house.connect() as client:
        house.scheduler.endings = [ended]
        assert await client.recv() == "last"
        got, reason = await end_of(client)

        assert got == code
        assert reason is not None
        assert reason.startswith(words)


async def test_a_scheduler_that_goes_takes_the_child_along(tmp_path: Path) -> None:
    async with socket_house(tmp_path, die) as house, house.connect() as client:
        house.scheduler.loses_leases = True
        code, reason = await end_of(client)

        assert code == 1012
        assert reason is not None
        assert reason.startswith("scheduler_unavailable")


async def test_a_child_that_dies_before_it_is_open_is_tried_once_more(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.addresses = [str(tmp_path / "none.sock"), *house.scheduler.addresses]
        house.scheduler.endings = [CRASH]
        async with house.connect() as client:
            await client.send("hello")
            assert await client.recv() == "hello"


async def test_a_client_that_does_not_read_stops_the_child(tmp_path: Path) -> None:
    sent = 0

    async def flood(child: ServerConnection) -> None:
        nonlocal sent
        while True:
            await child.send(BLOCK)
            sent += 1

    async with socket_house(tmp_path, flood) as house, house.connect(max_queue=1) as client:
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)

        assert sent * len(BLOCK) < 16 << 20  # what sockets hold, and a message or two
        for _ in range(sent + 50):
            assert len(await client.recv()) == len(BLOCK)


async def test_a_child_that_does_not_read_stops_the_client(tmp_path: Path) -> None:
    reading = asyncio.Event()
    got = 0

    async def wait(child: ServerConnection) -> None:
        nonlocal got
        await reading.wait()
        async for _ in child:
            got += 1

    async with socket_house(tmp_path, wait) as house, house.connect() as client:
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while not reading.is_set():
                await client.send(BLOCK)
                sent += 1

        flooding = asyncio.create_task(flood())
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)

        assert sent * len(BLOCK) < 16 << 20
        reading.set()
        await flooding
        await until(lambda: got == sent)


async def test_a_message_that_is_too_large_ends_it_either_way(tmp_path: Path) -> None:
    async def shout(child: ServerConnection) -> None:
        async for _ in child:
            await child.send("x" * 5000)

    limits = {"websocket_message": 1000, "server_limits": {"max_message": 1000}}
    async with socket_house(tmp_path, shout, **limits) as house:
        async with house.connect() as client:
            await client.send("x" * 1000)
            code, reason = await end_of(client)
            assert code == 1009
            assert reason is not None
            assert "CORRAL_WEBSOCKET_MESSAGE" in reason
        async with house.connect() as client:
            await client.send("x" * 1001)
            assert (await end_of(client))[0] == 1009
        await until(lambda: house.seen[1].close_code == 1009)


@pytest.mark.parametrize(
    ("limit", "name"),
    [
        ("websocket_idle_seconds", "CORRAL_WEBSOCKET_IDLE"),
        ("websocket_seconds", "CORRAL_WEBSOCKET_TIMEOUT"),
    ],
)
async def test_none_is_kept_for_ever(tmp_path: Path, limit: str, name: str) -> None:
    limits: dict[str, Any] = {limit: 0.2}
    async with socket_house(tmp_path, **limits) as house, house.connect() as client:
        code, reason = await end_of(client)

        assert code == 1001
        assert reason is not None
        assert name in reason
        await house.scheduler.until_all_released()


async def test_an_idle_one_is_closed_when_its_instance_drains(tmp_path: Path) -> None:
    async with (
        socket_house(tmp_path, websocket_quiet_seconds=0.05) as house,
        house.connect() as client,
    ):
        await until(lambda: house.seen)
        house.scheduler.leases[0].draining.set()
        code, reason = await end_of(client)

        assert code == 1012
        assert reason is not None
        assert reason.startswith("model_stopped")
        await house.scheduler.until_all_released()
        assert house.seen[0].close_code == 1012


async def test_one_that_speaks_is_let_speak(tmp_path: Path) -> None:
    async with (
        socket_house(tmp_path, websocket_quiet_seconds=600.0) as house,
        house.connect() as client,
    ):
        house.scheduler.leases[0].draining.set()
        for _ in range(5):
            await client.send("more")
            assert await client.recv() == "more"


async def test_a_drain_that_is_undone_closes_nothing(tmp_path: Path) -> None:
    async with (
        socket_house(tmp_path, websocket_quiet_seconds=0.1) as house,
        house.connect() as client,
    ):
        draining = house.scheduler.leases[0].draining
        draining.set()
        draining.clear()
        await asyncio.sleep(0.3)
        await client.send("still here")
        assert await client.recv() == "still here"


async def test_a_stop_closes_the_quiet_at_once_and_the_others_in_time(tmp_path: Path) -> None:
    async def talk(child: ServerConnection) -> None:
        if child.request is not None and "talk" in child.request.path:
            while True:
                await child.send("on and on")
                await asyncio.sleep(0.01)
        await echo(child)

    async with socket_house(tmp_path, talk, websocket_quiet_seconds=0.2) as house:
        async with house.connect() as quiet, house.connect(TARGET + "&talk=1") as talker:
            draining = asyncio.create_task(house.wiring.drain(0.8))
            assert (await end_of(quiet))[0] == 1012
            assert not draining.done()
            with suppress(ConnectionClosed):
                async for _ in talker:
                    pass
            assert (await end_of(talker))[0] == 1012
            await draining
        status, _, body = await refusal_of(house.connect())

        assert (status, json.loads(body)["error"]["code"]) == (503, "shutting_down")
        assert house.scheduler.held == []


async def test_openais_client_opens_one(tmp_path: Path) -> None:
    async def session(child: ServerConnection) -> None:
        async for message in child:
            asked = json.loads(message)
            await child.send(json.dumps({"type": "session.updated", "session": asked["session"]}))

    async with socket_house(tmp_path, session, keys=OneKey()) as house:
        client = AsyncOpenAI(
            api_key="good",
            base_url=f"http://127.0.0.1:{house.port}/v1",
            websocket_base_url=f"ws://127.0.0.1:{house.port}/v1",
        )
        async with client, client.realtime.connect(model="tiny") as connection:
            await connection.session.update(session={"type": "realtime", "instructions": "hush"})
            event = await connection.recv()

        assert event.type == "session.updated"
        assert house.scheduler.asked[0].preset == "tiny"
