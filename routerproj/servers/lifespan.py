"""ASGI lifespan for a server that does not speak it."""

from __future__ import annotations

import asyncio
from typing import Any


class LifespanFailed(Exception):
    """The application could not start, or could not end; the message is its own."""


class Lifespan:
    def __init__(self, application: Any) -> None:
        self._application = application
        self._to_application: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_application: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def startup(self) -> None:
        self._task = asyncio.create_task(self._run(), name="lifespan")
        await self._ask("lifespan.startup")

    async def shutdown(self) -> None:
        await self._ask("lifespan.shutdown")
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        await self._application(scope, self._to_application.get, self._from_application.put)

    async def _ask(self, kind: str) -> None:
        """Raises LifespanFailed, also when the application ends without an answer."""
        assert self._task is not None
        await self._to_application.put({"type": kind})
        answer = asyncio.create_task(self._from_application.get())
        await asyncio.wait({answer, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            raise LifespanFailed(f"the application ended during {kind}")
        if answer.result()["type"] != f"{kind}.complete":
            raise LifespanFailed(answer.result().get("message", kind))
