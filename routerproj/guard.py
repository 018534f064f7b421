"""The outermost ASGI wrapper: what can be stopped before anything else runs is stopped here.

It never holds back a byte: the body passes through as it comes, counted, and so does the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from models_registry.client_address import address_behind
from proxy.client_socket import can_answer, closing_for, fitting, http_answer
from proxy.log_context import LogContext, of_request
from proxy.relay import AnswerCut
from proxy.watch import AT_HAND
from routerproj import guard_rules as rules
from routerproj.refusals import refusal
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)
access_log = logging.getLogger("corral.access")

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class ConnectionCut(Exception):
    """Raised to the server, so that it closes the connection: a cut answer never looks whole.
    The reason is in the log already (logs.py keeps the servers from telling it again)."""


UPLOADS = "/api/blobs/"
SLOWEST_BODY = 1024
"""Bytes per second, beyond the time that any body may take."""


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """`open_hosts` is None where keys are asked for; else the hosts under which the gateway may be
    reached without one, and `open_origins` the pages that may call it. `max_form` is the limit of
    what Django reads, the admin's forms and the management API: it keeps bodies before it knows
    who sends them. `django_hosts` are those under which Django's paths may be reached; None leaves
    it to Django. `max_upload` is the limit of model files, which go to the disk as they come.
    `max_sockets` are the WebSockets that may be open at once. `access_log`: each request has its
    line in the log, once it is over."""

    max_body: int
    body_timeout_seconds: float
    max_form: int | None = None
    max_upload: int | None = None
    open_hosts: tuple[str, ...] | None = None
    open_origins: tuple[str, ...] = ()
    django_hosts: tuple[str, ...] | None = None
    max_sockets: int = 512
    access_log: bool = False


class Guard:
    def __init__(
        self, application: Application, config: GuardConfig, is_gateway_path: Callable[[str], bool]
    ) -> None:
        self._application = application
        self._config = config
        form = config.max_body if config.max_form is None else config.max_form
        self._form_config = replace(config, max_body=min(config.max_body, form))
        upload = config.max_body if config.max_upload is None else config.max_upload
        self._upload_config = replace(config, max_body=upload)
        self._is_gateway_path = is_gateway_path
        self._sockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._application(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        identifier = rules.request_id_of(scope)
        token = of_request.set(LogContext(identifier))
        begun = monotonic()
        gateway = self._is_gateway_path(scope["path"])
        config = self._config if gateway else self._form_config
        if scope["path"].startswith(UPLOADS):
            config = self._upload_config
        plain = not gateway and rules.wants_a_page(scope)
        at_hand = scope.get("extensions", {}).get(AT_HAND)
        exchange = Exchange(identifier, receive, send, config, plain=plain, at_hand=at_hand)
        try:
            try:
                exchange.expect(self._check(scope, config, gateway=gateway))
            except Refused as error:
                await exchange.refuse(error)
                return
            await self._answer(_clean(scope, identifier), exchange)
        finally:
            if config.access_log:
                _tell_of(scope, scope["method"], exchange.status, begun)
            of_request.reset(token)

    async def _answer(self, scope: Scope, exchange: Exchange) -> None:
        try:
            await self._application(scope, exchange.receive, exchange.send)
        except AnswerCut as cut:
            logger.warning("answer cut: %s", cut)
            raise ConnectionCut from None
        except Exception:
            if exchange.refused:
                return  # it choked on the disconnect that it was shown
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if exchange.started:
                raise ConnectionCut from None
            await exchange.refuse(
                Refused(
                    "internal_error",
                    f"something broke here; the log says more under {exchange.identifier}",
                )
            )

    def _check(self, scope: Scope, config: GuardConfig, *, gateway: bool) -> int | None:
        """The declared length of the body, of a request that may pass. Raises Refused."""
        length = rules.check_headers(scope)
        rules.check_path(scope)
        if length is not None and length > config.max_body:
            raise self.too_large(config)
        if not gateway and config.django_hosts is not None:
            rules.check_host(scope, config.django_hosts)
        if gateway and config.open_hosts is not None:
            rules.check_origin(scope, config.open_hosts, config.open_origins)
        return length

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        identifier = rules.request_id_of(scope)
        token = of_request.set(LogContext(identifier))
        begun = monotonic()
        self._sockets += 1
        try:
            try:
                self._check_socket(scope)
            except Refused as error:
                logger.info("WebSocket refused: %s", error.message)
                await receive()
                await refuse_socket(scope, send, error, identifier)
                return
            await self._application(_clean(scope, identifier), receive, send)
        except AnswerCut as cut:
            logger.warning("WebSocket cut: %s", cut)
            raise ConnectionCut from None
        except Exception:
            logger.exception("WebSocket %s failed", scope["path"])
            raise ConnectionCut from None
        finally:
            self._sockets -= 1
            if self._config.access_log:
                _tell_of(scope, "WEBSOCKET", 0, begun)
            of_request.reset(token)

    def _check_socket(self, scope: Scope) -> None:
        """Raises Refused."""
        rules.check_headers(scope)
        rules.check_path(scope)
        if self._config.open_hosts is not None:
            rules.check_origin(scope, self._config.open_hosts, self._config.open_origins)
        rules.check_socket_origin(scope, self._config.open_origins)
        if self._sockets > self._config.max_sockets:
            raise Refused(
                "too_many_connections",
                "too many WebSockets are open: CORRAL_WEBSOCKETS sets the limit",
                retry_after_seconds=1.0,
            )

    @staticmethod
    def too_large(config: GuardConfig) -> Refused:
        return Refused(
            "body_too_large",
            f"the body is larger than {config.max_body} bytes, which is the limit here"
            " (CORRAL_MAX_BODY is the gateway's)",
        )


class Exchange:
    """One request's `receive` and `send`, watched.

    Once refused, the application is told that its client left, and what it still sends is dropped.
    """

    def __init__(
        self,
        identifier: str,
        receive: Receive,
        send: Send,
        config: GuardConfig,
        *,
        plain: bool = False,
        at_hand: Callable[[], bool] | None = None,
    ) -> None:
        """`plain`: a refusal is a sentence, not JSON. `at_hand` says that `receive` waits for
        nobody."""
        self.identifier = identifier
        self.started = False
        self.status = 0
        """Of its answer; 0 while there is none."""
        self.refused = False
        self._receive = receive
        self._send = send
        self._config = config
        self._plain = plain
        self._at_hand = at_hand or _unknown
        self._body_over = False
        self._received = 0
        self._waited = 0.0

    def expect(self, length: int | None) -> None:
        """The body's length as declared."""
        self._body_over = length == 0

    async def receive(self) -> Message:
        if self.refused:
            return {"type": "http.disconnect"}
        if self._body_over:
            return await self._receive()
        try:
            return await self._part_of_body()
        except Refused as error:
            await self.refuse(error)
            return {"type": "http.disconnect"}

    async def _part_of_body(self) -> Message:
        message = await (self._receive() if self._at_hand() else self._awaited_part())
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._body_over = not message.get("more_body", False)
            if self._received > self._config.max_body:
                raise Guard.too_large(self._config)
        else:
            self._body_over = True
        return message

    async def _awaited_part(self) -> Message:
        """Only the time spent waiting for the client counts, never our own."""
        allowed = self._config.body_timeout_seconds + self._received / SLOWEST_BODY
        begun = monotonic()
        try:
            async with asyncio.timeout(max(0.0, allowed - self._waited)):
                message = await self._receive()
        except TimeoutError:
            raise Refused(
                "request_timeout", "the body did not arrive in time: CORRAL_BODY_TIMEOUT"
            ) from None
        self._waited += monotonic() - begun
        return message

    async def send(self, message: Message) -> None:
        if self.refused:
            return
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message.get("headers", ())]
            if not _says_its_id(headers):
                headers.append((b"x-request-id", self.identifier.encode()))
                message = {**message, "headers": headers}
        await self._send(message)

    async def refuse(self, error: Refused) -> None:
        """Answers, unless an answer has begun: then the application's ending stands."""
        self.refused = True
        if self.started:
            return
        self.started = True
        logger.info("refused: %s", error.message)
        status, headers, body = refusal(error, self.identifier, plain=self._plain)
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _unknown() -> bool:
    return False


def _says_its_id(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """The gateway's own answers do, at their end."""
    if headers and headers[-1][0] == b"x-request-id":
        return True
    return any(name.lower() == b"x-request-id" for name, _ in headers)


def _tell_of(scope: Scope, method: str, status: int, begun: float) -> None:
    """The path alone: a query is the client's own business."""
    seconds = round(monotonic() - begun, 6)
    fields = {"method": method, "path": scope["path"], "seconds": seconds}
    if status:
        fields["status"] = status
    peer, *_ = scope.get("client") or ("",)
    forwarded = rules.first_value(scope, b"x-forwarded-for").decode("latin-1")
    client = address_behind(peer, forwarded) or peer
    access_log.info("request", extra={**fields, "client": client})


async def refuse_socket(scope: Scope, send: Send, error: Refused, identifier: str) -> None:
    with suppress(OSError):  # it has gone
        if not can_answer(scope):
            told = closing_for(error)
            closing = {"code": told.code, "reason": fitting(told.reason)}
            await send({"type": "websocket.close", **closing})
            return
        answer = http_answer(send)
        status, headers, body = refusal(error, identifier)
        await answer({"type": "http.response.start", "status": status, "headers": headers})
        await answer({"type": "http.response.body", "body": body})


def _clean(scope: Scope, identifier: str) -> Scope:
    """The scope as the application sees it: no root path from outside, one sane request id."""
    headers = [header for header in scope["headers"] if header[0] != b"x-request-id"]
    headers.append((b"x-request-id", identifier.encode()))
    return {**scope, "root_path": "", "headers": headers}
