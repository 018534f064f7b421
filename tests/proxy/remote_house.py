"""A gateway whose presets run on a scripted remote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from .asking import Exchange, chat
from .fakes import Received
from .remotes import FakeRemote, RemoteConnection, fake_remote

ANSWER = b'{"model":"theirs-2026","usage":{"prompt_tokens":7,"completion_tokens":3}}'
STREAM = (
    b'data: {"choices":[{"delta":{"content":"a"}}]}\r\n\r\n'
    b": comment\n\n"
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
    b"data: [DONE]\n\n"
)


async def answers(received: Received, remote: RemoteConnection) -> None:
    await remote.answer(ANSWER)


async def streams(received: Received, remote: RemoteConnection) -> None:
    await remote.begin("text/event-stream")
    for start in range(0, len(STREAM), 7):
        await remote.say(STREAM[start : start + 7])
    await remote.finish()


async def closes(received: Received, remote: RemoteConnection) -> None:
    remote.cut()


def saying(raw: bytes) -> Any:
    async def script(received: Received, remote: RemoteConnection) -> None:
        await remote.raw(raw)
        remote.cut()

    return script


@asynccontextmanager
async def gateway(
    house: Any, *scripts: Any, path: str = "", key: str = "", **settings: Any
) -> AsyncIterator[tuple[Any, FakeRemote]]:
    """A gateway whose presets run on a remote that follows the script."""
    [script] = scripts
    async with fake_remote(script) as remote, house(answers, **settings) as h:
        h.scheduler.remotes = [remote.remote(path=path, key=key)]
        h.scheduler.model = "theirs"
        yield h, remote


async def asked(h: Any, body: bytes | None = None, **request: Any) -> Exchange:
    return await Exchange(h.app, body=chat() if body is None else body, **request).end()
