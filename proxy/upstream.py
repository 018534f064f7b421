"""The HTTP client to the children: one fresh connection a request, over a child's Unix socket.

llama-server closes a connection after a streamed answer although it announced to keep it, so none
is ever reused. A UnixConnector belongs to one path: there is one session per instance address.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
from yarl import URL

UNUSED_SECONDS = 60.0

LONGEST_WHOLE = 1 << 20
"""Bytes. An answer of a stated length up to this begins when it is whole: a child sends it in one
go, and one that dies over it has, for the client, not begun to answer."""


class UpstreamFailed(Exception):
    """The child could not be reached, or its connection broke: it is dead, or going."""


class Answer:
    """A child's answer, of which the first bytes are here. Close it, or read it to its end."""

    def __init__(self, response: aiohttp.ClientResponse, first: bytes, line: _Line) -> None:
        self.status = response.status
        self.headers = response.raw_headers
        self.is_stream = response.content_type == "text/event-stream"
        self.first = first
        self._response = response
        self._line = line
        self._open = True

    @property
    def ended(self) -> bool:
        """Nothing more will come: `more` would say so at once."""
        return self._response.content.at_eof()

    async def more(self) -> bytes:
        """The next bytes, as they come; empty at the end. Raises UpstreamFailed.

        May be cancelled and called again.
        """
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(str(error)) from error

    def close(self) -> None:
        """Cut the connection, unless it has ended. May be called again."""
        self._response.close()
        if self._open:
            self._open = False
            self._line.in_use -= 1


class _Line:
    """The session of one address."""

    def __init__(self, address: str, connect_timeout_seconds: float) -> None:
        self.address = address
        self.in_use = 0
        self.used_at = 0.0
        self.session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(address, force_close=True, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_seconds),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    def socket_exists(self) -> bool:
        """A look into a folder in memory: it holds up nobody."""
        return Path(self.address).exists()


class Upstream:
    """All connections to children of one process."""

    def __init__(self, connect_timeout_seconds: float) -> None:
        self._connect_timeout_seconds = connect_timeout_seconds
        self._lines: dict[str, _Line] = {}
        self._closing: asyncio.Task[None] | None = None

    async def open(
        self,
        address: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes],
    ) -> Answer:
        """POST `target` (path and query, sent as it is) and wait for the first bytes of the answer,
        for all of them if it states that it is short.

        Raises UpstreamFailed. Cancelling it closes the connection.
        """
        line = self._taken_line(address)
        response: aiohttp.ClientResponse | None = None
        try:
            response = await line.session.post(
                URL(f"http://localhost{target}", encoded=True),
                data=body,
                headers=headers,
                allow_redirects=False,
            )
            first = await response.content.readany()
            if 0 < (response.content_length or 0) <= LONGEST_WHOLE:
                first = await _rest(response, first)
            return Answer(response, first, line)
        except (aiohttp.ClientError, OSError) as error:
            _let_go(line, response)
            raise UpstreamFailed(str(error)) from error
        except BaseException:
            _let_go(line, response)
            raise

    async def close(self) -> None:
        if self._closing is not None:
            await self._closing
        for address in list(self._lines):
            await self._lines.pop(address).session.close()

    def _taken_line(self, address: str) -> _Line:
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = _Line(address, self._connect_timeout_seconds)
            line.in_use += 1
            # A new address means that an instance has started: one may have gone before it.
            self._closing = asyncio.create_task(self._close_unused(), name="close unused sessions")
        else:
            line.in_use += 1
        line.used_at = asyncio.get_running_loop().time()
        return line

    async def _close_unused(self) -> None:
        now = asyncio.get_running_loop().time()
        unused = [
            line
            for line in self._lines.values()
            if not line.in_use and (now - line.used_at > UNUSED_SECONDS or not line.socket_exists())
        ]
        for line in unused:  # all of them before the first await: nobody may take one meanwhile
            del self._lines[line.address]
        for line in unused:
            await line.session.close()


async def _rest(response: aiohttp.ClientResponse, first: bytes) -> bytes:
    parts = [first]
    while not response.content.at_eof():
        parts.append(await response.content.readany())
    return b"".join(parts)


def _let_go(line: _Line, response: aiohttp.ClientResponse | None) -> None:
    line.in_use -= 1
    if response is not None:
        response.close()
