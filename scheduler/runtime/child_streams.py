"""The streams that llama-server keeps of conversations: asked for, stopped, read.

None of these wakes a sleeping child or counts as use (measured): its buffers are there all the
same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

import aiohttp
import msgspec

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
STOP_SECONDS = 2.0
BUFFER_BYTES = 4 << 20
"""Of one stream a child keeps so much, the last bytes of a longer one."""


class Held(msgspec.Struct, frozen=True):
    """What a child says of one stream."""

    conversation_id: str
    is_done: bool
    total_bytes: int


class Streams(Protocol):
    async def look(self, address: str, keys: Sequence[str]) -> Mapping[str, Held] | None:
        """Those of `keys` that it knows; None when it does not say."""
        ...

    async def stop(self, address: str, key: str) -> None:
        """Its generation ends, if it runs, and its bytes are forgotten. Failing is no error."""
        ...

    async def read(self, address: str, key: str) -> tuple[int, bytes] | None:
        """All that there is of a stream that has ended, and at which of its bytes that begins."""
        ...


_NOT_READ = (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError, RecursionError)
_held = msgspec.json.Decoder(list[Held]).decode


class ChildStreams:
    async def look(self, address: str, keys: Sequence[str]) -> Mapping[str, Held] | None:
        asked = msgspec.json.encode({"conversation_ids": list(keys)})
        url = "http://localhost/v1/streams/lookup"
        try:
            async with (
                _asking(address, LOOK_SECONDS) as session,
                session.post(url, data=asked) as answer,
            ):
                if answer.status != 200:
                    return None
                return {held.conversation_id: held for held in _held(await answer.read())}
        except _NOT_READ as failure:
            logger.debug("no look at the streams of %s: %s", address, failure)
            return None

    async def stop(self, address: str, key: str) -> None:
        try:
            async with (
                _asking(address, STOP_SECONDS) as session,
                session.delete("http://localhost/v1/stream", params={"conv_id": key}),
            ):
                pass
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            logger.debug("a stream of %s was not stopped: %s", address, failure)

    async def read(self, address: str, key: str) -> tuple[int, bytes] | None:
        known = await self.look(address, [key])
        if known is None or (held := known.get(key)) is None or not held.is_done:
            return None
        begin = max(0, held.total_bytes - BUFFER_BYTES)
        asked = {"conv_id": key, "from": str(begin)}
        try:
            async with (
                _asking(address, None) as session,
                session.get("http://localhost/v1/stream", params=asked) as answer,
            ):
                if answer.status != 200:
                    return None
                return begin, await answer.read()
        except (aiohttp.ClientError, OSError) as failure:
            logger.debug("a stream of %s could not be read: %s", address, failure)
            return None


def _asking(address: str, seconds: float | None) -> aiohttp.ClientSession:
    connector = aiohttp.UnixConnector(address, force_close=True)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=seconds))
