"""uvicorn's HTTP protocol with limits on what comes before a request: bytes, time, connections.

uvicorn hands a request to the application once its headers are complete; until then nothing but the
server can stop a client that sends headers without end, or one byte a minute.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from proxy.watch import AT_HAND, CLIENT_GONE
from routerproj.addresses import TOO_MANY_OF_ADDRESS, Addresses, house_of, is_proxy
from routerproj.refusals import on_the_wire, refusal
from routerproj.servers.limits import MAX_HEADER_FIELDS, Limits
from routerproj.servers.transport import LingeringTransport
from routerproj.servers.uvicorn_answering import Answering
from scheduler.protocol import Refused

SPARE_CONNECTIONS = 64
"""Above the cap this many are told so; any more are just closed."""


class _Rejected(Exception):
    """Leaves the parser's callback; the refusal is kept by the protocol."""


class LimitedHttpProtocol(HttpToolsProtocol):
    """Subclassed once per server with its `limits` and what each of its `addresses` has open."""

    limits: ClassVar[Limits]
    addresses: ClassVar[Addresses]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._in_body = False
        self._head_bytes = 0
        self._framing_bytes = 0
        self._primed = True
        """False while a fresh parser is fed a head that has been parsed already."""
        self._upgrade: bytes | None = None
        self._refusal: Refused | None = None
        self._refused = False
        self._surplus = ""
        self._gone: asyncio.Future[None] = self.loop.create_future()

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        open_now, house = len(self.connections), self._house(transport)
        super().connection_made(
            LingeringTransport(
                transport,
                self.loop,
                self.client_still_sends,
                self.limits.slow_reader_timeout_seconds,
                partial(self.addresses.take_back, house),
            )
        )
        over = self.addresses.count(house)
        if max(over, open_now - self.limits.max_connections) > SPARE_CONNECTIONS:
            transport.abort()
            return
        if open_now >= self.limits.max_connections:
            self._surplus = "too many connections are open: CORRAL_MAX_CONNECTIONS sets the limit"
        elif over:
            self._surplus = TOO_MANY_OF_ADDRESS
        self._arm()

    def _house(self, transport: asyncio.Transport) -> str:
        """What its connections are counted under; empty where they are not."""
        peer = transport.get_extra_info("peername")
        if not isinstance(peer, tuple) or is_proxy(str(peer[0]), self.limits.proxies):
            return ""
        return house_of(str(peer[0]))

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
        if self._surplus:
            self._refuse(Refused("too_many_connections", self._surplus, retry_after_seconds=1.0))
            return
        if self._in_head:
            self._head_bytes += len(data)
        else:
            self._framing_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(
                self._refusal or Refused("invalid_request", "this is not a valid HTTP request")
            )
            return
        if self._in_head and self._head_bytes:
            self._arm()  # only now: most heads are whole with their first bytes
            if self._head_bytes > self.limits.max_headers:
                self._refuse(self._headers_too_large())
        elif self._in_body and self._framing_bytes > self.limits.max_headers:
            self._refuse(self._headers_too_large())  # trailers, or a chunk's extensions

    def _parse(self, data: bytes | memoryview) -> None:
        """A request to change the protocol, unless to WebSocket, is a plain request (RFC 9110 7.8):
        curl and Java's HttpClient ask for h2c by default. The parser ends a message of that kind at
        its headers; what follows, the body, goes to a fresh one that has been told its framing."""
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if self._asks_for_websocket():
                    self._disarm()
                    self.handle_websocket_upgrade()
                    return
                data = memoryview(data)[upgrade.args[0] :]
                self._prime()

    def _prime(self) -> None:
        version = self.scope["http_version"].encode()
        head = [b"POST / HTTP/%b\r\n" % version]
        for name, value in self.scope["headers"]:
            if name in (b"content-length", b"transfer-encoding"):
                head.append(b"%b: %b\r\n" % (name, value))
        head.append(b"\r\n" if self.cycle.keep_alive else b"connection: close\r\n\r\n")
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._primed = False
        self.parser.feed_data(b"".join(head))

    def _asks_for_websocket(self) -> bool:
        """By the headers of the scope: those of the parser are over with the head."""
        return self.ws_protocol_class is not None and self._upgrade == b"websocket"

    def pause_writing(self) -> None:
        super().pause_writing()
        self._lingering_transport.reader.watch()

    def handle_websocket_upgrade(self) -> None:
        self._in_body = False  # there was none: its end is not waited for at the close
        super().handle_websocket_upgrade()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        answering = Answering(cycle)
        extensions: Any = cycle.scope["extensions"]
        extensions[AT_HAND] = cycle.message_event.is_set  # which knows nothing of the scope

        async def answered(scope: Any, receive: Any, _send: Any) -> None:
            await app(scope, receive, answering.send)

        super()._start_asgi_task(cycle, answered)

    # The parser's callbacks

    def on_message_begin(self) -> None:
        if not self._primed:
            return
        super().on_message_begin()
        self.scope["extensions"] = {CLIENT_GONE: self._gone}  # type: ignore[dict-item]
        self._in_head = True

    def on_headers_complete(self) -> None:
        if not self._primed:
            self._primed = True
            return
        self._upgrade = self._get_upgrade() if self.parser.should_upgrade() else None
        try:
            self._check_head()
        except Refused as error:
            self._refusal = error
            raise _Rejected from error
        self._in_head = False
        self._in_body = True
        self._head_bytes = self._framing_bytes = 0
        self._disarm()
        super().on_headers_complete()
        self.headers = []  # what comes now are trailers: they would become headers of the scope

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # only the parser's idea: see _parse
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
        if self._upgrade == b"websocket":
            self._check_websocket()

    def _check_websocket(self) -> None:
        plain = self.parser.get_method() == b"GET" and self.parser.get_http_version() == "1.1"
        framing = (b"content-length", b"transfer-encoding")
        if not plain or any(name in framing for name, _ in self.headers):
            raise Refused(
                "invalid_request", "WebSocket begins with a GET of HTTP/1.1 that has no body"
            )
        if self._answering():
            raise Refused("invalid_request", "WebSocket cannot begin before the last answer's end")

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
            if not self._in_body or self.pipeline or self.cycle.response_started:
                self._lingering_transport.abort()
                return
            # It is this request's own body that cannot be read: its answer is the refusal.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(on_the_wire(*refusal(error, f"req-{secrets.token_hex(12)}")))
        self.transport.close()


def protocol_class(limits: Limits) -> type[LimitedHttpProtocol]:
    return type(
        "CorralHttpProtocol",
        (LimitedHttpProtocol,),
        {"limits": limits, "addresses": Addresses(limits.max_per_address)},
    )
