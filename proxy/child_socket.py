"""The WebSocket client to the children. It holds little: a child whose client is slow has to wait,
and so has a client whose child is."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from proxy.client_socket import ABNORMAL, NO_CODE, Closing
from proxy.connecting import UpstreamFailed, connected
from proxy.headers import RawHeaders

UNREAD_MESSAGES = 2
"""Of a child, that may wait here for its client."""
UNSENT_BYTES = 64 << 10
CLOSE_SECONDS = 1.0
"""What a child may take to say good-bye."""

NORMAL, GOING_AWAY, PROTOCOL_ERROR, TOO_BIG, BROKEN = 1000, 1001, 1002, 1009, 1011


class ChildRefused(Exception):
    """The child answers the handshake with an HTTP answer of its own."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class ChildClosed(Exception):
    """The child has closed; `closing` is None when its connection broke without a word."""

    def __init__(self, closing: Closing | None) -> None:
        super().__init__(closing)
        self.closing = closing


class ChildSocket:
    """An open one."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @property
    def subprotocol(self) -> str | None:
        """Which of those that it was offered the child has taken."""
        return self._connection.subprotocol

    async def receive(self) -> str | bytes:
        """Raises ChildClosed."""
        try:
            return await self._connection.recv()
        except ConnectionClosed as closed:
            raise ChildClosed(_said_by(closed)) from closed

    async def send(self, message: str | bytes) -> None:
        """Waits until the child has room for it. Raises ChildClosed."""
        try:
            await self._connection.send(message)
        except ConnectionClosed as closed:
            raise ChildClosed(_said_by(closed)) from closed

    async def close(self, closing: Closing) -> None:
        """Harmless when it is closed. Takes CLOSE_SECONDS at most."""
        code = {NO_CODE: NORMAL, ABNORMAL: GOING_AWAY}.get(closing.code, closing.code)
        await self._connection.close(code, closing.reason)


async def open_to(
    address: str,
    target: str,
    headers: Sequence[tuple[str, str]],
    subprotocols: Sequence[str],
    *,
    connect_seconds: float,
    max_message: int,
) -> ChildSocket:
    """`address` is the path of a Unix socket, or host:port; `target` the path and query. Waits for
    the child's answer without end: limit it outside. Raises ChildRefused, or UpstreamFailed."""
    options: dict[str, Any] = {
        "additional_headers": headers,
        "subprotocols": [Subprotocol(name) for name in subprotocols] or None,
        "user_agent_header": None,
        "compression": None,
        "proxy": None,
        "open_timeout": None,
        "ping_interval": None,  # on this machine a peer that has gone is seen at once
        "close_timeout": CLOSE_SECONDS,
        "max_size": max_message,
        "max_queue": UNREAD_MESSAGES,
        "write_limit": UNSENT_BYTES,
    }
    host = "localhost" if address.startswith("/") else address
    try:
        connection = await connected(address, connect_seconds)
        options["sock"] = socket.socket(fileno=connection.detach())
        return ChildSocket(await connect(f"ws://{host}{target}", **options))
    except InvalidStatus as refusal:
        answer = refusal.response
        kept = [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in answer.headers.raw_items()
            if name.lower() in ("content-type", "retry-after")
        ]
        raise ChildRefused(answer.status_code, kept, bytes(answer.body or b"")) from refusal
    except (OSError, EOFError, ValueError, WebSocketException) as failure:  # it may redirect, too
        raise UpstreamFailed(str(failure)) from failure


def _said_by(closed: ConnectionClosed) -> Closing | None:
    """What the client is to be told; None for a child that has gone without a word."""
    ours, theirs = closed.sent, closed.rcvd
    if ours is not None and not closed.rcvd_then_sent and ours.code == TOO_BIG:
        return Closing(TOO_BIG, "the model's message is larger than CORRAL_WEBSOCKET_MESSAGE")
    if ours is not None and not closed.rcvd_then_sent:
        return Closing(BROKEN, "the model's side broke the WebSocket protocol")
    if theirs is None:
        return None
    return Closing(NORMAL if theirs.code == NO_CODE else theirs.code, theirs.reason)
