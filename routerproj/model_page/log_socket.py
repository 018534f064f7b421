"""The log of a model, followed by its page: a WebSocket of the admin's, for who may see runs there.

It ends when the client leaves, its session does, or the gateway stops.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from channels.db import database_sync_to_async
from django.utils import timezone

from models_registry.log_redaction import harmless_lines
from models_registry.models import Preset
from scheduler.log_following import Following, Piece, last_lines
from scheduler.protocol import Refused
from scheduler.run_logs import preset_folder, runs_in

MOST_LINES = 500
"""That are told at first."""
LOOK_SECONDS = 0.25
ASK_WHO_SECONDS = 1.0
SLOW_READER_SECONDS = 60.0
POLICY, RESTART, TRY_AGAIN = 1008, 1012, 1013

_PATH = re.compile(r"/admin/model/(\d{1,18})/log/")

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Person = Callable[[], Awaitable[str | None]]
"""Who listens, by the session; None: nobody who may. Raises Refused."""


def is_log_path(path: str) -> bool:
    return _PATH.fullmatch(path) is not None


class LogSockets:
    """Called for each. `close` when the gateway stops: then all end, and no further one begins."""

    def __init__(self, logs: Path, look_seconds: float = LOOK_SECONDS) -> None:
        self._logs = logs
        self._look_seconds = look_seconds
        self._stopping = asyncio.Event()

    def close(self) -> None:
        self._stopping.set()

    async def __call__(self, scope: Any, receive: Receive, send: Send, person: Person) -> None:
        await receive()
        try:
            allowed = await person()
        except Refused:
            await send({"type": "websocket.close", "code": TRY_AGAIN})
            return
        name = await _preset_at(scope["path"]) if allowed else None
        if name is None or self._stopping.is_set():
            await send({"type": "websocket.close", "code": POLICY})
            return
        await send({"type": "websocket.accept"})
        code = await self._until_one_ends(
            self._tell(preset_folder(self._logs, name), send),
            _gone(receive),
            _ended(person),
            self._stopping.wait(),
        )
        if code:
            await send({"type": "websocket.close", "code": code})

    async def _until_one_ends(self, *ways: Any) -> int:
        """Returns the code to close with; 0 when the client has."""
        names = ("telling", "gone", "session", "stop")
        codes = dict(zip(names, (TRY_AGAIN, 0, POLICY, RESTART), strict=True))
        tasks = [
            asyncio.create_task(way, name=f"log-{name}")
            for way, name in zip(ways, names, strict=True)
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        ended = done.pop()
        ended.result()  # a bug in it is a bug of ours
        return codes[ended.get_name().removeprefix("log-")]

    async def _tell(self, folder: Path, send: Send) -> None:
        """Returns when the client does not read."""
        following, first = await asyncio.to_thread(_begun, folder)
        told = _told(first, first=True)
        while await _sent(send, told):
            told = _told(await self._added(following))

    async def _added(self, following: Following) -> list[Piece]:
        """Looked for: no file tells that it has grown."""
        while True:
            if pieces := await asyncio.to_thread(following.added):
                return pieces
            await asyncio.sleep(self._look_seconds)


def _begun(folder: Path) -> tuple[Following, list[Piece]]:
    following = Following(folder)
    last = last_lines(runs_in(folder), MOST_LINES, following.begin)
    return following, [Piece(run, b"".join(lines)) for run, lines in last if lines]


def _told(pieces: Sequence[Piece], *, first: bool = False) -> str:
    """Harmless they are already, as ours wrote them; not so a file that somebody put there."""
    shown = [
        {
            "run": piece.run.name,
            "at": f"{timezone.localtime(piece.run.started_at):%Y-%m-%d %H:%M:%S}",
            "lines": harmless_lines(piece.lines).decode(errors="replace"),
        }
        for piece in pieces
    ]
    return msgspec.json.encode({"first": first, "pieces": shown}).decode()


async def _sent(send: Send, text: str) -> bool:
    try:
        async with asyncio.timeout(SLOW_READER_SECONDS):
            await send({"type": "websocket.send", "text": text})
    except TimeoutError:
        return False
    return True


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def _ended(person: Person) -> None:
    """Returns when nobody may listen any more. A database that fails ends nothing."""
    while True:
        await asyncio.sleep(ASK_WHO_SECONDS)
        try:
            if await person() is None:
                return
        except Refused:
            continue


async def _preset_at(path: str) -> str | None:
    """Its name; None where there is none."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    names = Preset.objects.filter(pk=int(found[1])).values_list("name", flat=True)
    name: str | None = await database_sync_to_async(names.first)()
    return name
