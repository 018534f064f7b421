"""The client's end of a WebSocket, as ASGI has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from proxy.answers import Send, send_refusal
from proxy.dialects import Dialect
from proxy.headers import RawHeaders
from proxy.watch import Cause, Receive, Watch
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

HTTP_ANSWERS = "websocket.http.response"
"""The ASGI extension by which a handshake is refused with an HTTP answer."""
PERSON = "corral.person"
"""In the scope: asks whose session of the admin it comes with. Raises Refused."""
KEY_PROTOCOL = "openai-insecure-api-key."
"""A browser cannot set headers, so OpenAI's clients there offer this sub-protocol with the key."""
POLICY, RESTART, TRY_AGAIN = 1008, 1012, 1013
NO_CODE, ABNORMAL = 1005, 1006
"""What stands for a close frame without a code, and for none at all: neither can be sent."""
LONGEST_REASON = 123
"""Bytes that a close frame has room for."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What a side that closes says."""

    code: int
    reason: str = ""


class ClientClosed(Exception):
    """The client has closed, or has gone."""

    def __init__(self, closing: Closing) -> None:
        super().__init__(closing)
        self.closing = closing


class ClientSocket:
    """`opening` first; then `accept` or `refuse`; then messages both ways; `close` once."""

    def __init__(self, scope: Any, receive: Receive, send: Send, request_id: str) -> None:
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: RawHeaders = scope["headers"]
        self.request_id = request_id
        self.person: Callable[[], Awaitable[str | None]] = scope.get(PERSON, _nobody)
        offered: Sequence[str] = scope.get("subprotocols", ())
        self.subprotocols = [name for name in offered if not name.startswith(KEY_PROTOCOL)]
        self.spoke_too_soon = False
        self._keys = [
            (b"authorization", b"Bearer " + name.removeprefix(KEY_PROTOCOL).encode())
            for name in offered
            if name.startswith(KEY_PROTOCOL)
        ]
        self._receive = receive
        self._send = send
        self._can_answer = can_answer(scope)
        self._accepted = False
        self._closed = False
        self._follower: asyncio.Task[None] | None = None

    @property
    def identifying_headers(self) -> RawHeaders:
        """With the key that was offered as a sub-protocol."""
        return [*self.headers, *self._keys]

    async def opening(self) -> None:
        await self._receive()

    def follow(self, watch: Watch, *, listens: bool = False) -> None:
        """See the client leave while nothing is received from it. One that `listens` only may say
        what it likes; another must not before it was accepted."""
        self._follower = watch.loop.create_task(
            self._until_gone(watch, listens=listens), name="client watch"
        )

    async def unfollow(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)

    async def accept(self, subprotocol: str | None = None) -> None:
        headers = [(b"x-request-id", self.request_id.encode())]
        self._accepted = True
        await self._tell(
            {"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers}
        )

    async def receive(self) -> str | bytes:
        """Raises ClientClosed."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            code = message.get("code") or NO_CODE
            raise ClientClosed(Closing(code, message.get("reason") or ""))
        text: str | None = message.get("text")
        if text is not None:
            return text
        return bytes(message["bytes"])

    async def send(self, message: str | bytes) -> None:
        """Waits until the client has room for it. Raises ClientClosed."""
        kind = "text" if isinstance(message, str) else "bytes"
        await self._tell({"type": "websocket.send", kind: message})

    async def close(self, closing: Closing) -> None:
        """Harmless when it is closed."""
        if self._closed:
            return
        self._closed = True
        reason = fitting(closing.reason)
        with suppress(ClientClosed):
            await self._tell({"type": "websocket.close", "code": closing.code, "reason": reason})

    async def refuse(self, refused: Refused, dialect: Dialect) -> None:
        """By an HTTP answer, or once accepted by closing it. Raises ClientClosed."""
        if self._can_answer and not self._accepted:
            answer = http_answer(self._tell)
            await send_refusal(answer, refused, dialect, "", self.request_id.encode())
        else:
            await self.close(closing_for(refused))

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Refuse it as a child did. Raises ClientClosed."""
        if not self._can_answer:
            await self.close(Closing(POLICY, f"the model answers with status {status}"))
            return
        answer = http_answer(self._tell)
        await answer({"type": "http.response.start", "status": status, "headers": list(headers)})
        await answer({"type": "http.response.body", "body": body})

    async def _tell(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except OSError as gone:  # as ASGI has it, for a client that has left
            raise ClientClosed(Closing(ABNORMAL)) from gone

    async def _until_gone(self, watch: Watch, *, listens: bool) -> None:
        try:
            while (await self._receive())["type"] != "websocket.disconnect":
                if not listens:
                    self.spoke_too_soon = True
                    break
        except Exception:
            logger.exception("The server's receive() failed: taken for a client that left")
        watch.interrupt(Cause.CLIENT_GONE)


async def _nobody() -> None:
    return None


def can_answer(scope: Any) -> bool:
    """Whether the server refuses a WebSocket's handshake with the answer that it is given; another
    one answers 403, whatever it is told."""
    return HTTP_ANSWERS in (scope.get("extensions") or {})


def http_answer(send: Send) -> Send:
    """Takes an HTTP answer, and refuses a handshake with it."""

    async def answer(message: dict[str, Any]) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return answer


def closing_for(refused: Refused) -> Closing:
    """What stands for a refusal where only a WebSocket can be closed."""
    code = TRY_AGAIN if refused.kind.retry else POLICY
    if refused.code == "shutting_down":
        code = RESTART
    return Closing(code, f"{refused.code}: {refused.message}")


def fitting(reason: str) -> str:
    """As much of it as a close frame has room for, in whole characters."""
    return reason.encode()[:LONGEST_REASON].decode(errors="ignore")
