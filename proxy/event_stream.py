"""GET /models/sse: what happens to models, as a stream of events over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from proxy.answers import Send
from proxy.callers import Caller
from proxy.dialects.llamacpp import error_answer
from proxy.event_words import Part
from proxy.events import ModelEvents
from proxy.forwarding import key_ended
from proxy.headers import RawHeaders
from proxy.relay import AnswerCut
from proxy.watch import Cause, Interrupted, Watch
from scheduler.protocol import Refused

KEEP_ALIVE = b": still here\n\n"


class EventStream:
    """A listener (proxy.events)."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self.begun = False
        self.hears_activity = False
        self._send = send
        self._request_id = request_id

    async def begin(self) -> None:
        self.begun = True
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"x-request-id", self._request_id),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def tell(self, part: Part) -> None:
        body = part.frames or KEEP_ALIVE
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


async def stream_events(
    events: ModelEvents,
    send: Send,
    headers: RawHeaders,
    request_id: bytes,
    watch: Watch,
    caller: Callable[[], Caller],
) -> None:
    """Until the client leaves, its key ends or the gateway stops. Raises Refused while nothing has
    been sent, and AnswerCut for a client that does not read."""
    stream = EventStream(send, request_id)
    last = dict(headers).get(b"last-event-id", b"").decode("latin-1")
    try:
        await events.tell(stream, last, watch, caller)
    except Interrupted as interrupted:
        if interrupted.cause is Cause.SLOW_READER:
            raise AnswerCut("a reader of events does not read") from None
        if interrupted.cause is Cause.KEY_ENDED:
            await _say_that_the_key_ended(stream, send)
            return
        if interrupted.cause is not Cause.SHUTDOWN:
            return
        if not stream.begun:
            raise Refused("shutting_down", "The gateway is shutting down.") from None
        await send({"type": "http.response.body", "body": b""})


async def _say_that_the_key_ended(stream: EventStream, send: Send) -> None:
    """An event `error`, and the end. Raises Refused while nothing has been sent."""
    if not stream.begun:
        raise key_ended() from None
    told = msgspec.json.encode(error_answer(key_ended(), "").body)
    await send({"type": "http.response.body", "body": b"event: error\ndata: %b\n\n" % told})
