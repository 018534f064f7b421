"""A request's body, whole: in memory while small, else in a file that has no name."""

from __future__ import annotations

import asyncio
import mmap
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from proxy.conf import ProxyConfig
from proxy.headers import RawHeaders, content_length
from proxy.watch import Cause, Interrupted, Receive, Watch
from scheduler.protocol import Refused

_READ_AT_ONCE = 256 << 10
_SEND_WHOLE = 1 << 20
"""More than this in one go would hold up the loop, and be held twice."""


class Body:
    """A body that can be sent more than once. Close it when the request is over."""

    def __init__(self, held: bytes | None = None, spool: IO[bytes] | None = None) -> None:
        self._held = held
        self._spool = spool
        self.size = len(held) if held is not None else _size(spool)
        self.spooled = spool is not None
        self._sending: asyncio.Future[Any] | None = None

    @contextmanager
    def view(self) -> Iterator[bytes | mmap.mmap]:
        """The whole body, to look at inside the block."""
        if self._held is not None:
            yield self._held
            return
        assert self._spool is not None
        with mmap.mmap(self._spool.fileno(), self.size, access=mmap.ACCESS_READ) as mapped:
            yield mapped

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
        if self._spool is not None:
            self._spool.close()
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
    receive: Receive, headers: RawHeaders, config: ProxyConfig, watch: Watch
) -> Body:
    """The body up to its end. Raises Refused (too large, too slow) or Interrupted.

    More than `retry_body` goes to a spool file; the caller closes the Body in any case.
    """
    stated = content_length(headers)
    if stated is not None and stated > config.max_body:
        raise _too_large(config)
    try:
        with watch:
            return await _read(receive, config, watch)
    except Interrupted as interrupted:
        if interrupted.cause is Cause.BODY_IDLE:
            raise Refused(
                "request_timeout",
                f"No more of the body came within {config.body_timeout_seconds:g} s.",
            ) from interrupted
        raise


async def _read(receive: Receive, config: ProxyConfig, watch: Watch) -> Body:
    parts: list[bytes] = []
    in_memory = total = 0
    spool: IO[bytes] | None = None
    try:
        while True:
            watch.limit(config.body_timeout_seconds, Cause.BODY_IDLE)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Interrupted(Cause.CLIENT_GONE)
            part = message.get("body", b"")
            total += len(part)
            if total > config.max_body:
                raise _too_large(config)
            parts.append(part)
            in_memory += len(part)
            more = message.get("more_body", False)
            if in_memory > (config.retry_body if spool is None else _SEND_WHOLE) or (
                spool is not None and not more
            ):
                watch.no_limit()  # our disk is not the client's time
                if spool is None:
                    spool = await asyncio.to_thread(_new_spool, config.temp_folder)
                await asyncio.to_thread(_write, spool, parts)
                parts, in_memory = [], 0
            if not more:
                watch.no_limit()
                return Body(spool=spool) if spool is not None else Body(b"".join(parts))
    except BaseException:
        if spool is not None:
            with suppress(OSError):  # a full disk fails again at closing
                spool.close()
        raise


def _new_spool(folder: Path) -> IO[bytes]:
    """It never has a name where the file system can do that; its mode is 0600."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=folder)


def _write(spool: IO[bytes], parts: list[bytes]) -> None:
    spool.writelines(parts)
    spool.flush()


def _too_large(config: ProxyConfig) -> Refused:
    return Refused("body_too_large", f"The body is larger than {config.max_body} bytes.")
