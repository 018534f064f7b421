"""uvicorn's HTTP protocol with limits on what comes before a request: bytes, time, connections.

uvicorn hands a request to the application once its headers are complete; until then nothing but the
server can stop a client that sends headers without end, or one byte a minute.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy.watch import CLIENT_GONE
from routerproj.refusals import on_the_wire, refusal
from routerproj.servers.limits import MAX_HEADER_FIELDS, Limits
from scheduler.protocol import Refused

LINGER_SECONDS = 2.0
"""How long what a refused client still sends is read and dropped. Closing at once would reset the
connection, and the client would not see why."""

SPARE_CONNECTIONS = 64
"""Above the cap this many are told so; any more are just closed."""


class _Rejected(Exception):
    """Leaves the parser's callback; the refusal is kept by the protocol."""


WRITE_AT_ONCE = 64 << 10


class LingeringTransport(asyncio.Transport):
    """A transport whose `close()` waits for the client to stop sending, when it still does.

    What one turn of the loop writes leaves in one system call: the head of an answer with its first
    bytes, and a short answer whole.
    """

    def __init__(self, transport: asyncio.Transport, protocol: LimitedHttpProtocol) -> None:
        super().__init__()
        self.raw = transport
        self.lingering = False
        self._protocol = protocol
        self._timer: asyncio.TimerHandle | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0

    def write(self, data: bytes) -> None:  # type: ignore[override]
        if not self._unsent:
            self._protocol.loop.call_soon(self._write)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > WRITE_AT_ONCE:
            self._write()  # so that a client who does not read is waited for

    def _write(self) -> None:
        parts, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if parts and not self.raw.is_closing():
            self.raw.write(b"".join(parts))

    def close(self) -> None:
        if self.lingering or self.raw.is_closing():
            return
        self._write()
        if not self._protocol.client_still_sends():
            self.raw.close()
            return
        self.lingering = True
        if self.raw.can_write_eof():
            self.raw.write_eof()
        self.raw.resume_reading()
        self._timer = self._protocol.loop.call_later(LINGER_SECONDS, self.raw.abort)

    def gone(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def is_closing(self) -> bool:
        return self.lingering or self.raw.is_closing()

    def abort(self) -> None:
        self.raw.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.raw.get_extra_info(name, default)

    def pause_reading(self) -> None:
        if not self.lingering:
            self.raw.pause_reading()

    def resume_reading(self) -> None:
        if not self.raw.is_closing():
            self.raw.resume_reading()


class LimitedHttpProtocol(HttpToolsProtocol):
    """Subclassed once per server with its `limits`."""

    limits: ClassVar[Limits]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._in_body = False
        self._head_bytes = 0
        self._refusal: Refused | None = None
        self._refused = False
        self._surplus = False
        self._gone: asyncio.Future[None] = self.loop.create_future()

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        open_now = len(self.connections)
        super().connection_made(LingeringTransport(transport, self))
        if open_now >= self.limits.max_connections + SPARE_CONNECTIONS:
            transport.abort()
            return
        self._surplus = open_now >= self.limits.max_connections
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._lingering_transport.gone()
        super().connection_lost(exc)
        self._gone.set_result(None)

    @property
    def _lingering_transport(self) -> LingeringTransport:
        assert isinstance(self.transport, LingeringTransport)
        return self.transport

    def client_still_sends(self) -> bool:
        """Whether bytes of a request that is not whole may be under way."""
        return self._refused or self._in_body

    # Bytes

    def data_received(self, data: bytes) -> None:
        if self._refused or self._lingering_transport.lingering:
            return
        self._unset_keepalive_if_required()
        if self._in_head:
            self._head_bytes += len(data)
        if self._surplus:
            self._refuse(
                Refused(
                    "too_many_connections",
                    "too many connections are open: CORRAL_MAX_CONNECTIONS sets the limit",
                    retry_after_seconds=1.0,
                )
            )
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._disarm()
            if self._should_upgrade():
                self.handle_websocket_upgrade()
        except httptools.HttpParserError:
            self._refuse(
                self._refusal or Refused("invalid_request", "this is not a valid HTTP request")
            )
        else:
            if self._in_head and self._head_bytes:
                self._arm()  # only now: most heads are whole with their first bytes
                if self._head_bytes > self.limits.max_headers:
                    self._refuse(self._headers_too_large())

    def handle_websocket_upgrade(self) -> None:
        self.transport = self._lingering_transport.raw
        super().handle_websocket_upgrade()

    # The parser's callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CLIENT_GONE: self._gone}  # type: ignore[dict-item]
        self._in_head = True

    def on_headers_complete(self) -> None:
        try:
            self._check_head()
        except Refused as error:
            self._refusal = error
            raise _Rejected from error
        self._in_head = False
        self._in_body = True
        self._head_bytes = 0
        self._disarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._in_body = False
        if not self._answering():  # answered before its body was whole
            self._disarm()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self._answering():
            return
        if self._in_body or self._head_bytes:
            # The rest of a body that nobody wants, or the next request, is arriving: neither may
            # take for ever.
            self._unset_keepalive_if_required()
            self._arm()

    def _check_head(self) -> None:
        size = len(self.url)
        for name, value in self.headers:
            size += len(name) + len(value) + 4
            # The parser says so only after it has handed the request over.
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise Refused("invalid_request", "the only Transfer-Encoding understood is chunked")
        if size > self.limits.max_headers or len(self.headers) > MAX_HEADER_FIELDS:
            raise self._headers_too_large()
        # The parser would take the host out of the target, and the application never see it.
        if not self.url.startswith(b"/") or self.url.startswith(b"//"):
            raise Refused(
                "invalid_request", "the request target must be a path that begins with one slash"
            )

    def _headers_too_large(self) -> Refused:
        return Refused(
            "headers_too_large",
            f"the headers are larger than {self.limits.max_headers} bytes or more than"
            f" {MAX_HEADER_FIELDS}: CORRAL_MAX_HEADERS sets the size",
        )

    # The deadline

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _arm(self) -> None:
        """While an answer runs, what follows it on the connection is not timed: it has to wait."""
        if self._header_timer is None and not self._answering():
            self._header_timer = self.loop.call_later(
                self.limits.header_timeout_seconds, self._too_slow
            )

    def _disarm(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _too_slow(self) -> None:
        self._header_timer = None
        if self.transport.is_closing():
            return
        if self._head_bytes:
            self._refuse(
                Refused(
                    "request_timeout",
                    "the headers did not arrive in time: CORRAL_HEADER_TIMEOUT sets the limit",
                )
            )
        else:
            self.transport.close()

    # Refusing

    def _refuse(self, error: Refused) -> None:
        """Answers and closes. In the middle of another answer it can only cut the connection."""
        self._disarm()
        self._refused = True
        if self._answering():
            self._lingering_transport.abort()
            return
        self.transport.write(on_the_wire(*refusal(error, f"req-{secrets.token_hex(12)}")))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Answered as if no upgrade had been asked for, which HTTP allows; nothing to warn of."""


def protocol_class(limits: Limits) -> type[LimitedHttpProtocol]:
    return type("CorralHttpProtocol", (LimitedHttpProtocol,), {"limits": limits})
