"""What processes that were killed have left under way is recorded: a WebSocket by what it had told,
a conversation by what its stream tells at its end.

A conversation's stream goes on without its carrier (scheduler/runtime/conversations.py). One
process waits for its end, however many clients read it; its record has the stream's own number, so
that it is one and the same record whoever writes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from proxy.headers import end_of_head
from proxy.sse import Tail
from proxy.streams import held_by_child
from proxy.upstream import Answer, UpstreamFailed
from proxy.usage.counting import Seen, count
from proxy.usage.open_records import LeftOpen, Opened, OpenRecords
from proxy.usage.record import Record
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused, StreamState

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 2.0
STREAM_EVERY_SECONDS = 1.0
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
BUFFER_BYTES = 4 << 20
"""Of one stream a child keeps so much, the last bytes of a longer one."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """The last bytes of a stream that has ended, at `ended` in seconds since 1970."""

    tail: Tail
    size: int
    ended: int


class _NotNow(Exception):
    """It cannot be read at the moment."""


class Orphans:
    """Of one process: whoever finds one keeps it."""

    def __init__(
        self, open_records: OpenRecords, write: Callable[[Record], None], scheduler: SchedulerClient
    ) -> None:
        self.open_records = open_records
        self._write = write
        self._scheduler = scheduler
        self._looking: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        if self._looking is None:
            self._looking = asyncio.create_task(self._run(), name="orphans")

    async def close(self) -> None:
        """What is not settled yet is for other processes."""
        tasks = [*self._settling, *filter(None, (self._looking,))]
        self._looking = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                for left in await asyncio.to_thread(self.open_records.left):
                    task = asyncio.create_task(self._settle(left), name="orphan")
                    self._settling.add(task)
                    task.add_done_callback(self._settling.discard)
            except OSError as error:
                logger.warning("What killed processes have left cannot be looked for: %s", error)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _settle(self, left: LeftOpen) -> None:
        try:
            record = None if left.opened is None else await self._record_of(left.opened)
        except BaseException:  # also cancelled: it is another process's then
            left.let_go()
            raise
        if record is not None:
            self._write(record)
        left.recorded()

    async def _record_of(self, opened: Opened) -> Record:
        if not opened.stream:
            return opened.record
        rest = await self._end_of(opened)
        return opened.record if rest is None else _counted(opened.record, rest)

    async def _end_of(self, opened: Opened) -> _Rest | None:
        """None when nobody knows the stream any more."""
        while True:
            try:
                where = await self._scheduler.stream(opened.owner, opened.conversation)
                if where.stream and where.stream != opened.stream:
                    return None  # a newer one has taken its place
                if where.state in ("ended", "kept"):
                    return await _read(where)
            except Refused as refused:
                if refused.code == "conversation_lost":
                    return None
                logger.debug("where a stream is cannot be known: %s", refused.message)
            except _NotNow as failure:
                logger.debug("a stream cannot be read: %s", failure)
            await asyncio.sleep(STREAM_EVERY_SECONDS)


def _counted(record: Record, rest: _Rest) -> Record:
    told = rest.tail.usage()
    whole = told.answered is not None
    seen = Seen(rest.size, rest.tail.events, is_stream=True)
    counted = count(record.path, told, seen, record.read, whole=whole)
    return msgspec.structs.replace(
        record,
        code="" if whole else record.code,
        read=counted.read,
        cached=counted.cached,
        answered=counted.answered,
        estimated=counted.estimated,
        duration=max(0.0, round(rest.ended - record.at, 6)),
    )


async def _read(where: StreamState) -> _Rest:
    """Raises _NotNow."""
    tail = Tail()
    if where.state == "kept":
        try:
            data = await asyncio.to_thread(Path(where.path).read_bytes)
        except OSError as error:
            raise _NotNow(str(error)) from error
        tail.push(data)
        return _Rest(tail, where.begin + len(data), where.ended)
    loop = asyncio.get_running_loop()
    held = await held_by_child(where.address, [where], loop)
    if not held or not held[0].is_done:
        raise _NotNow("its child does not tell of it")
    size = held[0].total_bytes
    asked = urlencode({"conv_id": where.stream, "from": max(0, size - BUFFER_BYTES)})
    head = f"GET /v1/stream?{asked} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    answer = Answer(loop)
    try:
        async with asyncio.timeout(READ_SECONDS):
            await answer.ask(where.address, head.encode() + end_of_head(0), b"", CONNECT_SECONDS)
            await answer.begin()
            if answer.status != 200:
                raise _NotNow(f"its child answers {answer.status}")
            tail.push(answer.first)
            while part := await answer.more():
                tail.push(part)
    except (UpstreamFailed, TimeoutError) as failure:
        raise _NotNow(str(failure)) from failure
    finally:
        answer.close()
    return _Rest(tail, size, where.ended)
