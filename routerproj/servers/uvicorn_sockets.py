"""uvicorn's WebSocket protocol with what it lacks: an end for clients that do not read, patience
with those that must not be read from, a bound of small frames, and a shutdown that leaves the last
word to the application.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import ProtocolError
from websockets.frames import Frame

from routerproj.servers.small_frames import TOO_MANY, SmallFrames
from routerproj.servers.transport import LingeringTransport

CLOSE_SECONDS = 1.0
"""What a client may take to answer that it is to close."""
ABNORMAL = 1006


class SocketProtocol(WebSocketsSansIOProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.close_timeout = CLOSE_SECONDS
        self.small_frames = SmallFrames()
        self._take_frame = self.conn.recv_frame
        self.conn.recv_frame = self._count_frame  # type: ignore[method-assign]
        self.heard_at = self.looked_at = 0.0
        """When bytes last came, and when that was last looked at."""

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(self.transport, LingeringTransport):
            self.transport.gone()
        if self.handshake_complete and self.conn.close_rcvd is None:
            # uvicorn's own word for it is that of a clean close without a code.
            self.queue.put_nowait({"type": "websocket.disconnect", "code": ABNORMAL})
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self.handshake_complete:
            self.transport.abort()  # messages before the answer: they would pile up unread
            return
        self.heard_at = self.loop.time()
        super().data_received(data)

    def _count_frame(self, frame: Frame) -> None:
        """Before it is answered or kept. What is raised closes the connection with this reason."""
        if self.small_frames.are_too_many_with(len(frame.data), self.loop.time()):
            raise ProtocolError(TOO_MANY)
        self._take_frame(frame)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # else uvicorn logs that nobody has completed it

    def pause_writing(self) -> None:
        super().pause_writing()
        if isinstance(self.transport, LingeringTransport):
            self.transport.reader.watch()

    def keepalive_timeout(self) -> None:
        """Its pong may be here, or under way, behind what the application has not taken yet."""
        speaks = self.heard_at > max(self.looked_at, self.ping_sent_at)
        if self.ping_timeout is not None and (self.read_paused or speaks):
            self.looked_at = self.loop.time()
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    def shutdown(self) -> None:
        """The application closes it: with 1012, and when nothing is under way on it."""
        self.stop_keepalive()
