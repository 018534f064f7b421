"""Answers whose client has left while the child works on.

llama-server frees a slot at once only for a stream that has begun: everything else runs to its end
(or to its first byte, if it is to be a stream). Whoever holds the connection reads on and releases
the lease then; meanwhile it is abandoned, which the scheduler counts but does not protect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

from proxy.sse import Tail
from proxy.upstream import Answer, UpstreamFailed
from scheduler.client import Lease
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)


class AbandonedAnswers:
    """The background readers of one process. Close it before the scheduler's client."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def read_on(self, lease: Lease, answer: Answer, longest_seconds: float) -> None:
        """Takes over both, asked or begun or not; the caller uses neither any more."""
        lease.abandon()
        self._run(self._to_the_end(lease, answer, longest_seconds), "abandoned answer")

    def close_stream(self, lease: Lease, answer: Answer) -> None:
        """A stream that has begun: closing it frees the slot."""
        answer.close()
        self._run(_release(lease), "release")

    def stop_stream(
        self, lease: Lease, answer: Answer, longest_seconds: float, stop: Awaitable[None]
    ) -> None:
        """A conversation's stream goes on when its connection is closed: it ends by `stop`."""
        self._run(self._stopped(lease, answer, longest_seconds, stop), "stopped stream")

    async def close(self) -> None:
        """Cancel what is left; with the control connection the leases end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s %d failed", task.get_name(), id(task), exc_info=error)

    async def _stopped(
        self, lease: Lease, answer: Answer, longest_seconds: float, stop: Awaitable[None]
    ) -> None:
        try:
            await stop
        except Refused as refused:
            logger.info("The stream of lease %d was not stopped: %s", lease.lease, refused)
        await self._to_the_end(lease, answer, longest_seconds, whole=True)

    async def _to_the_end(
        self, lease: Lease, answer: Answer, longest_seconds: float, *, whole: bool = False
    ) -> None:
        tail = Tail()
        try:
            async with asyncio.timeout(longest_seconds):
                await _read(answer, tail, whole=whole)
        except UpstreamFailed:
            logger.info("The child of lease %d ended before its abandoned answer", lease.lease)
        except TimeoutError:
            logger.warning("The abandoned answer of lease %d reached its limit", lease.lease)
        except Exception:
            logger.exception("The abandoned answer of lease %d cannot be read on", lease.lease)
        finally:
            answer.close()
        # Not when cancelled: the slot is busy then, which the scheduler sees for itself.
        usage = tail.usage()
        await lease.release(read=usage.read, cached=usage.cached, answered=usage.answered)


async def _read(answer: Answer, tail: Tail, *, whole: bool) -> None:
    """Up to its end; of a stream, unless it is to be read `whole`, up to its first byte."""
    if not answer.begun:
        await answer.begin()
    part = answer.first
    while part and (whole or not answer.is_stream):
        tail.push(part)
        part = await answer.more()


async def _release(lease: Lease) -> None:
    await lease.release()
