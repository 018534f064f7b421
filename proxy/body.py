"""A request's body, whole: in memory while small, else in a file that has no name."""

from __future__ import annotations

import asyncio
import errno
import logging
import mmap
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from proxy.answers import NoRoom
from proxy.conf import ProxyConfig
from proxy.headers import RawHeaders, content_length
from proxy.watch import Cause, Interrupted, Receive, Watch
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 256 << 10
_SEND_WHOLE = 1 << 20
"""More than this in one go would hold up the loop, and be held twice."""


_SMALL = 64 << 10
"""Bodies up to this stay in memory however full it is: connections are bounded, too."""

_KEPT_FREE = 64 << 20
"""Bytes of the disk that are left to others: the database may lie on it."""


class Room:
    """What the bodies of one process take up, in bytes, and may."""

    def __init__(self, memory: int, disk: int) -> None:
        self.held = 0
        self.spooled = 0
        self._memory = memory
        self._disk = disk

    @property
    def memory_is_full(self) -> bool:
        return self.held > self._memory

    def move_to_disk(self, size: int) -> None:
        """Raises NoRoom."""
        self.take_disk(size)
        self.held -= size

    def take_disk(self, size: int) -> None:
        """Raises NoRoom."""
        if self.spooled + size > self._disk:
            raise NoRoom(
                f"The bodies of waiting requests take up {self._disk} bytes of disk: "
                "CORRAL_SPOOL_LIMIT is the limit."
            )
        self.spooled += size


class View:
    def __init__(self, seen: bytes | mmap.mmap) -> None:
        self._seen = seen

    def __enter__(self) -> bytes | mmap.mmap:
        return self._seen

    def __exit__(self, *raised: object) -> None:
        if not isinstance(self._seen, bytes):
            self._seen.close()


class Body:
    """A body that can be sent more than once. Close it when the request is over."""

    def __init__(
        self, room: Room, held: bytes | None = None, spool: IO[bytes] | None = None
    ) -> None:
        """It is counted in `room` already."""
        self._room = room
        self._held = held
        self._spool = spool
        self._closed = False
        self.size = len(held) if held is not None else _size(spool)
        self.spooled = spool is not None
        self._sending: asyncio.Future[Any] | None = None

    def view(self) -> View:
        """The whole body, to look at inside the block."""
        if self._held is not None:
            return View(self._held)
        assert self._spool is not None
        return View(mmap.mmap(self._spool.fileno(), self.size, access=mmap.ACCESS_READ))

    def sent_by(self, sending: asyncio.Future[Any]) -> None:
        """It is needed as long as this runs, also when it is closed meanwhile."""
        self._sending = sending

    def to_send(self) -> bytes | AsyncIterator[bytes]:
        """The whole body from its beginning, each time."""
        if self._held is not None and self.size <= _SEND_WHOLE:
            return self._held
        return self._parts()

    def close(self) -> None:
        if self._sending is not None and not self._sending.done():
            self._sending.add_done_callback(lambda _: self.close())
            return
        if self._closed:
            return
        self._closed = True
        if self._spool is not None:
            self._spool.close()
            self._room.spooled -= self.size
        else:
            self._room.held -= self.size
        self._held = b""

    async def _parts(self) -> AsyncIterator[bytes]:
        for start in range(0, self.size, _READ_AT_ONCE):
            if self._held is not None:
                yield self._held[start : start + _READ_AT_ONCE]
            else:
                assert self._spool is not None
                yield await asyncio.to_thread(os.pread, self._spool.fileno(), _READ_AT_ONCE, start)


def _size(spool: IO[bytes] | None) -> int:
    assert spool is not None
    return os.fstat(spool.fileno()).st_size


async def read_body(
    receive: Receive, headers: RawHeaders, config: ProxyConfig, watch: Watch, room: Room
) -> Body:
    """The body up to its end. Raises Refused (too large, too slow, no room) or Interrupted.

    More than `retry_body`, or than memory has room for, goes to a spool file; the caller closes the
    Body in any case.
    """
    stated = content_length(headers)
    if stated is not None and stated > config.max_body:
        raise _too_large(config)
    try:
        with watch:
            return await _Reading(config, watch, room).body(receive)
    except Interrupted as interrupted:
        if interrupted.cause is Cause.BODY_IDLE:
            raise Refused(
                "request_timeout",
                f"No more of the body came within {config.body_timeout_seconds:g} s.",
            ) from interrupted
        raise


class _Reading:
    """A body on its way in."""

    def __init__(self, config: ProxyConfig, watch: Watch, room: Room) -> None:
        self._config = config
        self._watch = watch
        self._room = room
        self._parts: list[bytes] = []
        self._in_memory = 0
        self._spool: IO[bytes] | None = None
        self._spooled = 0

    async def body(self, receive: Receive) -> Body:
        try:
            more = True
            while more:
                more = await self._part(receive)
                if self._is_too_much(more):
                    await self._to_disk()
        except BaseException:
            self._room.held -= self._in_memory
            self._room.spooled -= self._spooled
            if self._spool is not None:
                with suppress(OSError):  # a full disk fails again at closing
                    self._spool.close()
            raise
        self._watch.no_limit()
        if self._spool is not None:
            return Body(self._room, spool=self._spool)
        return Body(self._room, held=b"".join(self._parts))

    async def _part(self, receive: Receive) -> bool:
        """Whether more is to come."""
        self._watch.limit(self._config.body_timeout_seconds, Cause.BODY_IDLE)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Interrupted(Cause.CLIENT_GONE)
        part = message.get("body", b"")
        if self._spooled + self._in_memory + len(part) > self._config.max_body:
            raise _too_large(self._config)
        self._parts.append(part)
        self._in_memory += len(part)
        self._room.held += len(part)
        return bool(message.get("more_body", False))

    def _is_too_much(self, more: bool) -> bool:
        if self._spool is None:
            return self._in_memory > self._config.retry_body or (
                self._room.memory_is_full and self._in_memory > _SMALL
            )
        return not more or self._in_memory > _SEND_WHOLE or self._room.memory_is_full

    async def _to_disk(self) -> None:
        self._watch.no_limit()  # our disk is not the client's time
        size = self._in_memory
        self._room.move_to_disk(size)
        self._in_memory, self._spooled = 0, self._spooled + size
        parts, self._parts = self._parts, []
        with _full_disk_refused(self._config.temp_folder):
            if self._spool is None:
                self._spool = await asyncio.to_thread(_new_spool, self._config.temp_folder)
            await asyncio.to_thread(write_parts, self._spool, parts, size)


async def body_on_disk(
    room: Room, folder: Path, most: int, write: Callable[[IO[bytes]], Awaitable[bool]]
) -> Body | None:
    """The body that `write` puts into a new spool file, `most` bytes of it; None when it says that
    there is none. Raises NoRoom."""
    room.take_disk(most)
    spool: IO[bytes] | None = None
    kept = False
    try:
        with _full_disk_refused(folder):
            spool = await asyncio.to_thread(_new_spool, folder)
            kept = await write(spool)
    finally:
        if not kept:
            room.spooled -= most
            if spool is not None:
                with suppress(OSError):  # a full disk fails again at closing
                    spool.close()
    if not kept:
        return None
    body = Body(room, spool=spool)
    room.spooled -= most - body.size
    return body


async def kept_body(data: bytes, room: Room, config: ProxyConfig) -> Body:
    """The body with these bytes, in memory while they are few. Raises NoRoom."""
    if len(data) <= config.retry_body and not room.memory_is_full:
        room.held += len(data)
        return Body(room, held=data)

    async def write(spool: IO[bytes]) -> bool:
        await asyncio.to_thread(write_parts, spool, [data], len(data))
        return True

    body = await body_on_disk(room, config.temp_folder, len(data), write)
    assert body is not None
    return body


@contextmanager
def _full_disk_refused(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        logger.error("bodies cannot be kept in %s: %s", folder, error)
        raise NoRoom("The disk has no room for the bodies of waiting requests.") from error


def _new_spool(folder: Path) -> IO[bytes]:
    """It never has a name where the file system can do that; its mode is 0600."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=folder)


def write_parts(spool: IO[bytes], parts: Iterable[bytes], size: int) -> None:
    """`size` bytes of them. Raises OSError, ENOSPC also where others would be left no room."""
    disk = os.fstatvfs(spool.fileno())
    if disk.f_bavail * disk.f_frsize < size + _KEPT_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    spool.writelines(parts)
    spool.flush()


def _too_large(config: ProxyConfig) -> Refused:
    return Refused("body_too_large", f"The body is larger than {config.max_body} bytes.")
