"""What happens to models, told to all readers of a process by one subscription.

A reader first hears everything as it is, or, if it says where it left off and that is not long ago,
what it has missed. One that reads slowly delays nobody: what it cannot take is dropped, and it then
hears everything as it is again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from django.db import Error as DatabaseError

from proxy.callers import Caller
from proxy.downloads import Downloads
from proxy.event_words import (
    Event,
    Part,
    activity_event,
    download_events,
    events_of,
    snapshot_event,
)
from proxy.watch import Cause, Watch
from scheduler.client import ConnectionLost, SchedulerClient
from scheduler.protocol import Happened, Refused

logger = logging.getLogger(__name__)

KEPT = 1000
"""Events that a reader may have missed and still be told one by one."""
UNREAD = 256
"""Parts that may wait for one reader."""
KEEP_ALIVE_SECONDS = 15.0
LOOK_AT_DOWNLOADS_SECONDS = 1.0
ASK_AGAIN_SECONDS = 1.0

NOTHING = Part()
ACTIVITY = Part((activity_event(), ""))

Models = Callable[[Caller], Awaitable[list[Any]]]
"""The entries of GET /models for a caller. Raises Refused."""
Names = Callable[[], Awaitable[Mapping[str, tuple[str, ...]]]]
"""By preset, all its names."""


class Listener(Protocol):
    """Whoever hears of events. Its `tell` waits until its client has taken them; NOTHING is told
    when nothing has happened for long. `hears_activity`: it is also told that leases, waiters or
    free memory have changed, or how a download stands, at most once a second."""

    hears_activity: bool

    async def begin(self) -> None: ...

    async def tell(self, part: Part) -> None: ...


class _Reader:
    def __init__(self, *, hears_activity: bool) -> None:
        self.hears_activity = hears_activity
        self.parts: asyncio.Queue[Part] = asyncio.Queue(UNREAD)
        self.behind = False
        """It has to be told everything anew."""

    def tell(self, part: Part) -> None:
        if self.behind:
            return
        try:
            self.parts.put_nowait(part)
        except asyncio.QueueFull:
            self.fall_behind()

    def fall_behind(self) -> None:
        self.behind = True
        while not self.parts.empty():
            self.parts.get_nowait()
        self.parts.put_nowait(NOTHING)  # wakes who waits for a part


class ModelEvents:
    """It listens from the first reader on."""

    def __init__(
        self, scheduler: SchedulerClient, models: Models, names: Names, downloads: Downloads
    ) -> None:
        self._scheduler = scheduler
        self._models = models
        self._names = names
        self._downloads = downloads
        self._readers: set[_Reader] = set()
        self._kept: deque[tuple[int, Part]] = deque(maxlen=KEPT)
        self._life = ""
        self._number = 0
        self._status: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._heard = asyncio.Event()
        """The scheduler has said where it is."""

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def tell(
        self, listener: Listener, last: str, watch: Watch, caller: Callable[[], Caller]
    ) -> None:
        """Everything as it is, or what has happened after the event with the id `last`; then what
        happens, until the watch interrupts it: of what the `caller` may use at that time. Raises
        Refused before `begin`, and Interrupted."""
        self._listen()
        await self._until_heard()
        reader = _Reader(hears_activity=listener.hears_activity)
        missed = self._missed(last)
        self._readers.add(reader)  # from here on nothing escapes it
        try:
            with watch:
                first = [await self._everything(caller())] if missed is None else missed
                await listener.begin()
                for part in first:
                    await self._tell(listener, await self._as_seen(part, caller()), watch)
                while True:
                    await self._tell(listener, await self._next(reader, caller), watch)
        finally:
            self._readers.discard(reader)

    async def _tell(self, listener: Listener, part: Part | None, watch: Watch) -> None:
        if part is None:
            return
        watch.limit(KEEP_ALIVE_SECONDS * 4, Cause.SLOW_READER)
        await listener.tell(part)
        watch.no_limit()

    async def _next(self, reader: _Reader, caller: Callable[[], Caller]) -> Part | None:
        try:
            async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                told = await reader.parts.get()
        except TimeoutError:
            return NOTHING
        if not reader.behind:
            return await self._as_seen(told, caller())
        reader.behind = False
        try:
            return await self._everything(caller())
        except Refused:
            reader.behind = True  # the scheduler is away again: at the next sign of it
            return NOTHING

    # What there is to tell ---------------------------------------------------------------

    async def _everything(self, caller: Caller) -> Part:
        """Its id first: what happens meanwhile is told twice rather than not at all."""
        id = self._id(self._number)
        return Part((snapshot_event(await self._models(caller)), id))

    async def _as_seen(self, part: Part, caller: Caller) -> Part | None:
        """None for what is not told them. Of a model that has gone nobody knows any more which
        names it had: who sees some models only is told everything anew."""
        if not caller.allowed:
            return part
        if part.removes:
            return await self._everything(caller)
        names = await self._names()
        return part.only(lambda model: caller.may_use(names.get(model, (model,))))

    def _missed(self, last_id: str) -> list[Part] | None:
        """What happened after the event that the client names; None when that cannot be told."""
        life, _, number = last_id.partition(".")
        if not number.isdecimal() or len(number) > 15:
            return None
        last = int(number)
        if life != self._life or last > self._number:
            return None
        if last < self._number and (not self._kept or self._kept[0][0] > last + 1):
            return None
        return [part for kept, part in self._kept if kept > last]

    def _id(self, number: int) -> str:
        return f"{self._life}.{number}"

    async def _until_heard(self) -> None:
        try:
            async with asyncio.timeout(ASK_AGAIN_SECONDS * 5):
                await self._heard.wait()
        except TimeoutError as error:
            raise Refused(
                "scheduler_unavailable",
                "The scheduler does not answer: what happens to models is not known.",
                retry_after_seconds=ASK_AGAIN_SECONDS,
            ) from error

    def _tell_all(self, part: Part) -> None:
        for reader in self._readers:
            reader.tell(part)

    # Listening -------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._hear(), name="model-events"),
                asyncio.create_task(self._look_at_downloads(), name="download-events"),
            ]

    async def _hear(self) -> None:
        while True:
            try:
                async for happened in self._scheduler.happenings():
                    self._take(happened)
            except (ConnectionLost, Refused) as failure:
                logger.debug("no news of models: %s", failure)
            self._heard.clear()
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    def _take(self, happened: Happened) -> None:
        if happened.life != self._life or happened.number not in (self._number, self._number + 1):
            self._begin_anew(happened)
        self._number = happened.number
        self._heard.set()
        if happened.activity:
            self._tell_activity()
            return
        events = list(events_of(happened, self._status.get(happened.preset, "")))
        if not events:
            return
        if happened.preset:
            self._status[happened.preset] = events[-1]["data"]["status"]
        self._keep(happened.number, events)

    def _tell_activity(self) -> None:
        """Without an id, and not kept: who has missed it asks for all of it anyway."""
        for reader in self._readers:
            if reader.hears_activity:
                reader.tell(ACTIVITY)

    def _keep(self, number: int, events: list[Event]) -> None:
        """The id is with the last of them: who has heard that has heard all."""
        *others, last = events
        part = Part(*((event, "") for event in others), (last, self._id(number)))
        self._kept.append((number, part))
        self._tell_all(part)

    def _begin_anew(self, happened: Happened) -> None:
        """Another scheduler, or a gap: what was kept leads nowhere."""
        self._life, self._number = happened.life, happened.number
        self._kept.clear()
        self._status.clear()
        for reader in self._readers:
            reader.fall_behind()

    async def _look_at_downloads(self) -> None:
        """The first look after a time without readers tells nothing: their snapshot has it."""
        before: dict[str, Any] | None = None
        while True:
            try:
                before = await self._downloads_since(before) if self._readers else None
            except (DatabaseError, Refused) as error:
                logger.warning("how far downloads are is not known: %s", error)
            await asyncio.sleep(LOOK_AT_DOWNLOADS_SECONDS)

    async def _downloads_since(self, before: dict[str, Any] | None) -> dict[str, Any]:
        """Told without an id: what comes next tells them again."""
        now = await self._downloads.entries()
        if before is not None and now != before:
            gone = before.keys() - now.keys()
            finished = await self._downloads.finished(gone) if gone else {}
            told = list(download_events(before, now, finished))
            for event in told:
                self._tell_all(Part((event, "")))
            if not told:  # one waits, is paused or has a problem: llama.cpp has no word for it
                self._tell_activity()
        return now
