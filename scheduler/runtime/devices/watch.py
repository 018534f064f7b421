"""Looks at the devices again and again, without ever stopping the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from .device import Device

logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
HURRIED_SECONDS = 0.1
HANGS_SECONDS = 5.0
SHORTEST_SECONDS = 0.02

CLOSE_SECONDS = 5.0

Seen = tuple[Device, ...]


class Reads(Protocol):
    """Both may block."""

    def read(self, ours: Collection[int], fresh: bool) -> Seen: ...

    def close(self) -> None: ...


class DeviceWatch:
    """`run()` is a task that goes on until it is cancelled; then `close()`.

    `devices` are read in a thread of their own, one call at a time. `ours` gives the pids of our
    children as they are when a look begins. `told` gets what was seen, each second. A look that
    hangs (a driver does) is waited for; meanwhile the last figures are told as stale.
    """

    def __init__(
        self,
        devices: Reads,
        *,
        ours: Callable[[], Collection[int]],
        told: Callable[[Seen], None],
        every_seconds: float = EVERY_SECONDS,
        hurried_seconds: float = HURRIED_SECONDS,
        hangs_seconds: float = HANGS_SECONDS,
    ) -> None:
        self._ours = ours
        self._told = told
        self._every_seconds = every_seconds
        self._hurried_seconds = hurried_seconds
        self._hangs_seconds = hangs_seconds
        self._thread = _ReadingThread(devices)
        self._soon = asyncio.Event()
        self._hurry = False
        self._last: Seen = ()
        self._failure = ""

    @property
    def hurry(self) -> bool:
        """While it is on (bytes are returning), ten looks a second."""
        return self._hurry

    @hurry.setter
    def hurry(self, on: bool) -> None:
        if on and not self._hurry:
            self._soon.set()
        self._hurry = on

    def look_soon(self) -> None:
        """At once, or right after the look that is under way: that one may have been too early."""
        self._soon.set()

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        fresh = False
        while True:
            began = clock()
            self._soon.clear()
            await self._look(fresh or self._hurry)
            await asyncio.sleep(SHORTEST_SECONDS)
            wait = self._hurried_seconds if self._hurry else self._every_seconds
            fresh = await self._soon_or_after(began + wait - clock())

    async def close(self) -> None:
        """Closes the devices in their thread. A hanging one is left behind, and delays no exit."""
        closed = self._thread.close()
        if not (await asyncio.wait({closed}, timeout=CLOSE_SECONDS))[0]:
            logger.warning("the devices do not answer: they are left as they are")

    async def _look(self, fresh: bool) -> None:
        began = asyncio.get_running_loop().time()
        look = self._thread.read(frozenset(self._ours()), fresh)
        while not (await asyncio.wait({look}, timeout=self._hangs_seconds))[0]:
            seconds = asyncio.get_running_loop().time() - began
            self._say_failure("the devices do not answer: their last known figures stay")
            self._told(self._stale(seconds))
        failure = look.exception()
        if failure is not None:
            self._say_failure(f"the devices cannot be read: {failure!r}", failure)
            self._told(self._stale(asyncio.get_running_loop().time() - began))
            return
        if self._failure:
            logger.info("the devices can be read again")
        self._failure = ""
        self._last = look.result()
        self._told(self._last)

    async def _soon_or_after(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._soon.wait()
        return self._soon.is_set()

    def _say_failure(self, what: str, failure: BaseException | None = None) -> None:
        if what != self._failure:
            logger.warning("%s", what, exc_info=failure)
        self._failure = what

    def _stale(self, seconds: float) -> Seen:
        return tuple(
            replace(
                device, stale=(device.stale or 0.0) + seconds, warning=self._failure, processes=None
            )
            for device in self._last
        )


class _ReadingThread:
    """A daemon, unlike an executor's: an exit does not wait for a call that never returns."""

    def __init__(self, devices: Reads) -> None:
        self._devices = devices
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="devices", daemon=True)
        self._thread.start()

    def read(self, ours: Collection[int], fresh: bool) -> asyncio.Future[Seen]:
        return self._do(lambda: self._devices.read(ours, fresh))

    def close(self) -> asyncio.Future[Seen]:
        def close() -> Seen:
            self._devices.close()
            return ()

        closed = self._do(close)
        self._work.put(None)
        return closed

    def _do(self, call: Callable[[], Seen]) -> asyncio.Future[Seen]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Seen] = loop.create_future()

        def work() -> None:
            seen: Seen = ()
            failure: Exception | None = None
            try:
                seen = call()
            except Exception as raised:  # told to whoever awaits it
                failure = raised
            with contextlib.suppress(RuntimeError):  # the loop has gone meanwhile
                loop.call_soon_threadsafe(_settle, future, seen, failure)

        self._work.put(work)
        return future

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _settle(future: asyncio.Future[Seen], seen: Seen, failure: Exception | None) -> None:
    if future.done():
        return  # nobody waits any more
    if failure is None:
        future.set_result(seen)
    else:
        future.set_exception(failure)
