"""WebSockets at the ASGI level: other servers than ours, and clients that keep to no rule."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import NegotiationError

from scheduler.protocol import Refused

from .asking import until
from .socket_house import SocketHouse, socket_house

HEADERS = [(b"host", b"localhost")]


class Opening:
    """A WebSocket of a server that can or cannot refuse with an HTTP answer."""

    def __init__(self, house: SocketHouse, *, answers: bool, **changed: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.say({"type": "websocket.connect"})
        scope = {
            "type": "websocket",
            "path": "/v1/realtime",
            "query_string": b"model=tiny",
            "headers": HEADERS,
            "extensions": {"websocket.http.response": {}} if answers else None,
            **changed,
        }
        served = house.wiring.application(scope, self._messages.get, self._send)
        self.task = asyncio.ensure_future(served)

    def say(self, message: dict[str, Any]) -> None:
        self._messages.put_nowait(message)

    async def end(self) -> list[dict[str, Any]]:
        async with asyncio.timeout(20):
            await self.task
        return self.sent

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refused("model_not_found", "no"), 1008),
        (Refused("queue_full", "full", retry_after_seconds=1.0), 1013),
        (Refused("shutting_down", "bye"), 1012),
    ],
)
async def test_a_server_that_cannot_answer_closes(
    tmp_path: Path, refusal: Refused, code: int
) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.refusal = refusal
        [closing] = await Opening(house, answers=False).end()

        reason = f"{refusal.code}: {refusal.message}"
        assert closing == {"type": "websocket.close", "code": code, "reason": reason}


async def test_so_does_the_guard(tmp_path: Path) -> None:
    foreign = [*HEADERS, (b"origin", b"https://evil.example")]
    async with socket_house(tmp_path) as house:
        [closing] = await Opening(house, answers=False, headers=foreign).end()

        assert (closing["type"], closing["code"]) == ("websocket.close", 1008)
        assert closing["reason"].startswith("host_not_allowed: ")
        assert len(closing["reason"].encode()) <= 123


async def test_a_message_before_the_answer_is_refused(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.open.clear()
        opening = Opening(house, answers=True)
        await until(lambda: house.scheduler.waiting == 1)
        opening.say({"type": "websocket.receive", "text": "too soon"})
        start, _ = await opening.end()

        assert (start["type"], start["status"]) == ("websocket.http.response.start", 400)
        assert house.scheduler.waiting == 0


class Gone(Opening):
    """Of a client that has left: a server may say so by what it raises, too."""

    async def _send(self, message: Any) -> None:
        if message["type"] != "websocket.accept":
            raise OSError("gone")
        await super()._send(message)


async def test_a_client_that_has_gone_ends_it_wherever_that_is_seen(tmp_path: Path) -> None:
    async with socket_house(tmp_path) as house:
        opening = Gone(house, answers=True)
        await until(lambda: opening.sent)  # accepted
        opening.say({"type": "websocket.receive", "text": "hello"})
        await opening.end()

        await house.scheduler.until_all_released()
        assert house.seen[0].close_code == 1001


@pytest.mark.parametrize("answers", [True, False])
async def test_a_client_that_has_gone_need_not_be_refused(tmp_path: Path, answers: bool) -> None:
    async with socket_house(tmp_path) as house:
        house.scheduler.refusal = Refused("model_not_found", "no")
        assert await Gone(house, answers=answers).end() == []


async def test_nor_told_what_the_child_answers(tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise NegotiationError("none of these")

    async with socket_house(tmp_path, choose=refuse) as house:
        assert await Gone(house, answers=True).end() == []
        await house.scheduler.until_all_released()
