"""What WebSockets and conversations use is recorded, too; and clocks may jump."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import InvalidStatus

from scheduler.protocol import Refused

from .asking import Exchange, chat, until
from .fakes import Connection, Received
from .socket_house import socket_house

USAGE = {"total_tokens": 5, "input_tokens": 3, "output_tokens": 2}
SAID = b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n'
LAST = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}\n\n'
DONE = b"data: [DONE]\n\n"


async def speaks(child: ServerConnection) -> None:
    async for _ in child:
        await child.send(json.dumps({"type": "response.output_text.delta", "delta": '"usage"'}))
        await child.send(json.dumps({"type": "response.done", "response": {"usage": USAGE}}))


async def test_a_websocket_is_recorded_with_all_that_its_answers_told(tmp_path: Path) -> None:
    async with socket_house(tmp_path, speaks) as house:
        async with house.connect() as client:
            for _ in range(3):
                await client.send("more")
                await client.recv()
                await client.recv()
        await house.scheduler.until_all_released()

    [record] = house.usage.records
    assert (record.read, record.answered, record.estimated) == (9, 6, False)
    assert (record.status, record.path, record.asked) == (101, "/v1/realtime", "tiny")
    assert record.charged
    assert house.scheduler.leases[0].tokens == (9, None, 6)


async def test_a_websocket_that_is_refused_is_recorded(tmp_path: Path) -> None:
    async with socket_house(tmp_path, speaks) as house:
        house.scheduler.refusal = Refused("model_not_found", "there is none")
        with pytest.raises(InvalidStatus):
            await house.connect().__aenter__()

    [record] = house.usage.records
    assert (record.status, record.code, record.charged) == (404, "model_not_found", False)


class Stops:
    """Says something, and the rest when it is told to."""

    def __init__(self) -> None:
        self.go_on: list[bool] = []

    async def __call__(self, received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(SAID)
        await until(lambda: self.go_on)
        for part in (LAST, DONE):
            await child.say(part)
        await child.finish()


def talk(app: object) -> Exchange:
    return Exchange(
        app,  # type: ignore[arg-type]
        body=chat(stream=True),
        headers=[(b"x-conversation-id", b"talk")],
    )


async def test_a_conversation_whose_client_is_away_is_recorded_once_with_all_it_used(house):
    stops = Stops()
    async with house(stops) as h:
        exchange = talk(h.app)
        await until(lambda: SAID in exchange.body)
        exchange.leave()
        await exchange.end()
        assert not h.usage.records
        stops.go_on.append(True)
        await h.scheduler.until_all_released()

    [record] = h.usage.records
    assert (record.read, record.answered, record.estimated) == (9, 2, False)
    assert (record.status, record.code, record.charged) == (200, "", True)
    assert record.record == "stream-key-0"


async def test_a_clock_that_jumps_moves_no_duration(house, monkeypatch):
    now = time.time()

    async def answers(received: Received, child: Connection) -> None:
        monkeypatch.setattr(time, "time", lambda: now - 86_400)
        await child.answer(LAST[6:])

    async with house(answers) as h:
        await Exchange(h.app, body=chat()).end()

    [record] = h.usage.records
    assert abs(record.at - now) < 60
    assert 0 <= record.queue_wait <= record.first_token <= record.duration < 60
