"""A request that is carried by a task of its own: it goes on when its client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proxy.answers import Send
from proxy.conf import ProxyConfig
from proxy.relay import AnswerCut
from proxy.watch import Cause, Interrupted, Watch


class Handover:
    """From the task that carries to the client's own, one message at a time; into the void when the
    client has gone."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(maxsize=1)
        self._client_gone = False

    async def put(self, message: dict[str, Any] | None) -> None:
        """None: that was the last one."""
        if not self._client_gone:
            await self._messages.put(message)

    async def pass_on(self, send: Send, watch: Watch, slow_reader_seconds: float) -> None:
        """Until the last message. Raises Interrupted, and AnswerCut for a client that does not
        read; nothing is kept for it from then on."""
        begun = False
        try:
            with watch:
                while (message := await self._messages.get()) is not None:
                    begun = True
                    watch.limit(slow_reader_seconds, Cause.SLOW_READER)
                    await send(message)
                    watch.no_limit()
        except BaseException as left:
            self._let_go()
            if begun and isinstance(left, Interrupted) and left.cause is Cause.SLOW_READER:
                raise AnswerCut("the client does not read its answer") from None
            raise

    def _let_go(self) -> None:
        self._client_gone = True
        while not self._messages.empty():
            self._messages.get_nowait()


def handed_over(config: ProxyConfig) -> ProxyConfig:
    """For the task that hands its messages over: how long the client may take is watched where they
    are sent."""
    return replace(config, slow_reader_timeout_seconds=2 * config.slow_reader_timeout_seconds)


class Outliving:
    """The tasks of a process that may outlive their clients."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Callable[[], Any], name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it is the client's, if it is there still
