"""daphne's WebSockets with what they lack: back-pressure both ways, refusals that say why, and
close frames with any code and a reason."""

from __future__ import annotations

import asyncio
from typing import Any

from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer  # type: ignore[import-untyped]

from proxy.client_socket import HTTP_ANSWERS
from routerproj.refusals import on_the_wire
from routerproj.servers.limits import Limits
from routerproj.servers.small_frames import TOO_MANY, SmallFrames

OPENING_SECONDS = 24 * 3600
"""daphne's own limit for the time until a WebSocket is accepted: ours are the queue's."""
CLOSE_SECONDS = 1
PONG_SECONDS = 10
"""Less than daphne's time between two pings, for a ping forgets the one before it."""


class Inbox(asyncio.Queue[Any]):
    """What a client has sent: while something of it waits, no more is read."""

    def __init__(self, protocol: SocketProtocol) -> None:
        super().__init__()
        self.paused = False
        self._protocol = protocol

    def put_nowait(self, message: Any) -> None:
        super().put_nowait(message)
        if message["type"] == "websocket.receive" and not self.paused:
            self.paused = True
            self._protocol.transport.pauseProducing()

    async def get(self) -> Any:
        message = await super().get()
        if self.paused and self.empty():
            self.paused = False
            self._protocol.transport.resumeProducing()
        return message


@implementer(IPushProducer)
class SocketProtocol(WebSocketProtocol):  # type: ignore[misc]
    muted: bool = False

    def connectionMade(self) -> None:
        super().connectionMade()
        self.writable = asyncio.Event()
        self.writable.set()
        self._http: tuple[int, Any] | None = None
        self._small_frames = SmallFrames()
        self.transport.unregisterProducer()  # HTTP's, which is over
        self.transport.registerProducer(self, True)

    def onFrameBegin(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._small_frames.are_too_many_with(self.current_frame.length, now):
            self._fail_connection(self.CLOSE_STATUS_CODE_PROTOCOL_ERROR, TOO_MANY)
        super().onFrameBegin()

    # What the transport calls: it has more to send than its client takes, or takes again.

    def pauseProducing(self) -> None:
        self.writable.clear()

    def resumeProducing(self) -> None:
        self.writable.set()

    def stopProducing(self) -> None:
        self.writable.set()

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        self.writable.set()
        if not self.muted and hasattr(self, "application_queue"):
            gone = {"type": "websocket.disconnect", "code": code, "reason": reason or ""}
            self.application_queue.put_nowait(gone)
            self.muted = True  # daphne's own word for it has no reason
        super().onClose(wasClean, code, reason)

    def handle_reply(self, message: Any) -> None:
        match message["type"]:
            case "websocket.http.response.start":
                self._http = message["status"], message["headers"]
            case "websocket.http.response.body":
                self._refuse(message["body"])
            case "websocket.accept":
                headers = {name.decode(): value.decode() for name, value in message["headers"]}
                self.handshake_deferred.callback((message["subprotocol"], headers))
                del self.handshake_deferred
            case "websocket.send":
                text = message.get("text")  # daphne's own drops an empty one
                body = message["bytes"] if text is None else text.encode()
                self.sendMessage(body, isBinary=text is None)
            case "websocket.close" if self.state == self.STATE_OPEN:
                reason = (message.get("reason") or "").encode()
                # Not by sendClose: that takes but the codes that a page's script may use.
                self.sendCloseFrame(message.get("code", 1000), reason)
            case _:
                super().handle_reply(message)

    def _sendAutoPing(self) -> None:
        """Not to one that is not read from: its pong would not be seen."""
        if not self._is_unread():
            super()._sendAutoPing()

    def onAutoPingTimeout(self) -> None:
        if self._is_unread():
            self.autoPingTimeoutCall = None  # its pong may be here; it is asked again later
        else:
            super().onAutoPingTimeout()

    def _is_unread(self) -> bool:
        inbox = getattr(self, "application_queue", None)
        return inbox is not None and inbox.paused

    def _refuse(self, body: bytes) -> None:
        assert self._http is not None
        del self.handshake_deferred
        self.transport.write(on_the_wire(*self._http, body))
        self.server.protocol_disconnected(self)
        self.dropConnection(abort=False)


class SocketFactory(WebSocketFactory):  # type: ignore[misc]
    protocol = SocketProtocol

    def __init__(self, server: Any, limits: Limits) -> None:
        super().__init__(server, server="")
        self.setProtocolOptions(
            autoPingTimeout=PONG_SECONDS,
            allowNullOrigin=True,  # the guard decides about origins
            openHandshakeTimeout=OPENING_SECONDS,
            closeHandshakeTimeout=CLOSE_SECONDS,
            echoCloseCodeReason=True,
            maxMessagePayloadSize=limits.max_message,
            maxFramePayloadSize=limits.max_message,
            failByDrop=False,  # a client is told what was wrong
        )


def with_answers(scope: dict[str, Any]) -> dict[str, Any]:
    """The scope, saying that a refusal may be an HTTP answer."""
    return {**scope, "extensions": {HTTP_ANSWERS: {}}, "asgi": {"version": "3.0"}}
