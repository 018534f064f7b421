"""One request to a remote server and what it answers, over a pooled connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
from yarl import URL

from proxy.headers import can_be_told
from proxy.remote.request import RemoteRequest
from proxy.remote.verdict import for_clients
from proxy.upstream import LONGEST_WHOLE, UpstreamFailed


class Unreachable(UpstreamFailed):
    """There was no connection: the server has seen nothing of the request."""


class RemoteAnswer:
    """What proxy.upstream.Answer is for a child: `ask`, `begin`, then `first` and as many `more` as
    it takes; `close` at any time. Who is cancelled in one of them has to close."""

    def __init__(self, session: aiohttp.ClientSession, request: RemoteRequest) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_stream = False
        self.is_encoded = False
        self.first = b""
        self.begun = False
        self._session = session
        self._request = request
        self._body: bytes | _Sent = b""
        self._size = 0
        self._connect_seconds = 0.0
        self._response: aiohttp.ClientResponse | None = None

    def ask(
        self, body: bytes | AsyncIterator[bytes], size: int, connect_seconds: float
    ) -> asyncio.Future[None] | None:
        """What `begin` sends. A body in parts is needed until the future that is returned is done;
        it is, at the latest, when this is closed."""
        self._size, self._connect_seconds = size, connect_seconds
        if isinstance(body, bytes):
            self._body = body
            return None
        self._body = _Sent(body)
        return self._body.done

    async def begin(self) -> None:
        """Send the request, and wait for the first bytes of the answer: for all of them if it
        states that it is short. Raises UpstreamFailed, Unreachable where nothing was sent."""
        request = self._request
        # What is done at once needs no reader: a GET has no body, and states no length.
        data = None if request.method == "GET" else self._body
        headers = list(request.headers)
        if data is not None:
            headers.append(("Content-Length", str(self._size)))
        try:
            self._response = await self._session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=headers,
                data=data,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_seconds),
            )
            self._read_head(self._response)
            whole = self._response.content_length
            if whole is not None and whole <= LONGEST_WHOLE:
                self.first = await self._response.content.read()
            else:
                self.first = await self._response.content.readany()
        except Exception as error:
            raise failure_of(error, self._connect_seconds) from error
        self.begun = True

    @property
    def ended(self) -> bool:
        """Nothing more will come: `more` would say so at once."""
        return self._response is not None and self._response.content.at_eof()

    async def more(self) -> bytes:
        """The next bytes, as they come; empty at the end. Raises UpstreamFailed."""
        assert self._response is not None
        try:
            return await self._response.content.readany()
        except Exception as error:
            raise failure_of(error, self._connect_seconds) from error

    def close(self) -> None:
        """Cut the connection, unless the answer is whole: then it is kept for the next request. May
        be called again."""
        if self._response is not None:
            self._response.close()  # one whose answer is whole has gone back to the pool already
        if isinstance(self._body, _Sent):
            self._body.close()

    def _read_head(self, response: aiohttp.ClientResponse) -> None:
        if response.status < 200:
            raise UpstreamFailed("it wants to speak something else than HTTP")
        self.status = response.status
        raw = [(name.lower(), value) for name, value in response.raw_headers]
        if not can_be_told(response.status, raw):
            raise UpstreamFailed("what it sent is no HTTP")
        self.headers = for_clients(raw)
        told = dict(raw)
        kind = told.get(b"content-type", b"").partition(b";")[0].strip().lower()
        self.is_stream = kind == b"text/event-stream"
        self.is_encoded = told.get(b"content-encoding", b"identity").lower() != b"identity"


class _Sent:
    """A body in parts on its way; `done` when no part of it is needed any more."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parts = parts
        self._reading = False
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._closed:
            raise StopAsyncIteration
        self._reading = True
        try:
            return await anext(self._parts)
        except StopAsyncIteration:
            self._closed = True
            raise
        finally:
            self._reading = False
            if self._closed:
                self._end()

    def close(self) -> None:
        self._closed = True
        if not self._reading:
            self._end()

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def failure_of(error: Exception, connect_seconds: float) -> UpstreamFailed:
    """In words that a client may read: no address, no name of a host."""
    if isinstance(error, UpstreamFailed):
        return error
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Unreachable(f"no connection within {connect_seconds:g} s")
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    ):
        return Unreachable("nobody listens there")
    for kind, failure, words in _WORDS:
        if isinstance(error, kind):
            return failure(words)
    raise error


_WORDS: tuple[tuple[type[Exception], type[UpstreamFailed], str], ...] = (
    (aiohttp.ClientConnectorDNSError, Unreachable, "the name of its host cannot be resolved"),
    (aiohttp.ClientConnectorCertificateError, Unreachable, "its certificate cannot be verified"),
    (aiohttp.ClientSSLError, Unreachable, "it does not speak TLS as it should"),
    (aiohttp.ClientConnectorError, Unreachable, "there is no way to it"),
    (aiohttp.ServerDisconnectedError, UpstreamFailed, "it closed the connection unanswered"),
    (aiohttp.ClientPayloadError, UpstreamFailed, "its answer broke off"),
    (aiohttp.ClientResponseError, UpstreamFailed, "what it sent is no HTTP"),
    (aiohttp.ClientError, UpstreamFailed, "the connection broke"),
    (OSError, UpstreamFailed, "the connection broke"),
)
