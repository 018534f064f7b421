"""Answers whose client has left while the child works on.

llama-server frees a slot at once only for a stream that has begun: everything else runs to its end
(or to its first byte, if it is to be a stream). Whoever holds the connection reads on and releases
the lease then; meanwhile it is abandoned, which the scheduler counts but does not protect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Any

from proxy.sse import Tail
from proxy.upstream import Answer, UpstreamFailed
from proxy.usage.counting import NOTHING, Counted
from proxy.usage.meter import Meter
from scheduler.client import Lease
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Left:
    """An answer that nobody waits for any more, asked or begun or not, and what is known of it:
    `why` it was left, and what has passed of it until then. Whoever had it uses it no more."""

    lease: Lease
    answer: Answer
    longest_seconds: float
    meter: Meter
    why: BaseException
    tail: Tail
    passed: int

    def push(self, part: bytes) -> None:
        self.tail.push(part)
        self.passed += len(part)

    def record(self, *, whole: bool, never_came: bool = False) -> Counted:
        """What it took. Nothing is said to have been used of an answer that never came."""
        if never_came:
            self.meter.failed(self.why)
            return NOTHING
        counted = self.meter.count(self.answer, self.tail, self.passed, whole=whole)
        self.meter.cut(self.why, counted)
        return counted


class AbandonedAnswers:
    """The background readers of one process. Close it before the scheduler's client."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def read_on(self, left: Left) -> None:
        left.lease.abandon()
        self._run(self._to_the_end(left), "abandoned answer")

    def close_stream(self, left: Left) -> None:
        """A stream that has begun: closing it frees the slot."""
        left.answer.close()
        self._run(_release(left.lease, left.record(whole=False)), "release")

    def stop_stream(self, left: Left, stop: Awaitable[None]) -> None:
        """A conversation's stream goes on when its connection is closed: it ends by `stop`."""
        self._run(self._stopped(left, stop), "stopped stream")

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

    async def _stopped(self, left: Left, stop: Awaitable[None]) -> None:
        try:
            await stop
        except Refused as refused:
            logger.info("The stream of lease %d was not stopped: %s", left.lease.lease, refused)
        await self._to_the_end(left, whole=True)

    async def _to_the_end(self, left: Left, *, whole: bool = False) -> None:
        number, ended, died = left.lease.lease, False, False
        try:
            async with asyncio.timeout(left.longest_seconds):
                ended = await _read(left, whole=whole)
        except UpstreamFailed:
            died = True
            logger.info("The child of lease %d ended before its abandoned answer", number)
        except TimeoutError:
            logger.warning("The abandoned answer of lease %d reached its limit", number)
        except Exception:
            logger.exception("The abandoned answer of lease %d cannot be read on", number)
        finally:
            left.answer.close()
            counted = left.record(whole=ended, never_came=died and not left.answer.begun)
        # Not when cancelled: the slot is busy then, which the scheduler sees for itself.
        await _release(left.lease, counted)


async def _read(left: Left, *, whole: bool) -> bool:
    """Up to its end; of a stream, unless it is to be read `whole`, up to its first byte: then it is
    not at its end."""
    answer = left.answer
    if not answer.begun:
        await answer.begin()
    part = await answer.more() if left.passed else answer.first
    while part and (whole or not answer.is_stream):
        left.push(part)
        part = await answer.more()
    return not part


async def _release(lease: Lease, counted: Counted) -> None:
    await lease.release(read=counted.read, cached=counted.cached, answered=counted.answered)
