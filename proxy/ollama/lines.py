"""An answer of the gateway's own as Ollama tells what takes long: a line of JSON for each step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from proxy.answers import Send, send_json
from proxy.relay import AnswerCut
from proxy.watch import Cause, Interrupted, Watch
from scheduler.protocol import Refused

Object = dict[str, Any]
SUCCESS: Object = {"status": "success"}

_SLOW_READER_SECONDS = 60.0


async def tell(
    steps: AsyncIterator[Object], send: Send, request_id: bytes, watch: Watch, *, streams: bool
) -> None:
    """All steps, the last of which is `success`; or only that one when nothing streams. What is
    refused before the first step is raised as Refused, after it told in a last line. Raises
    Interrupted when the client leaves."""
    if not streams:
        with watch:
            async for _ in steps:
                pass
        await send_json(send, 200, SUCCESS, request_id, [(b"cache-control", b"no-store")])
        return
    begun = False
    try:
        async with aclosing(steps) as following:  # type: ignore[type-var]
            while (step := await _next(following, watch)) is not None:
                if not begun:
                    await send(_start(request_id))
                    begun = True
                await _line(send, step, watch)
    except Refused as refused:
        if not begun:
            raise
        await _line(send, {"error": refused.message, "code": refused.code}, watch)
    except Interrupted as interrupted:
        if interrupted.cause is Cause.SLOW_READER:
            raise AnswerCut("the client does not read its answer") from None
        if interrupted.cause is not Cause.SHUTDOWN or not begun:
            raise
        told = {"error": "The gateway is shutting down.", "code": "shutting_down"}
        await send({"type": "http.response.body", "body": _encoded(told), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _next(steps: AsyncIterator[Object], watch: Watch) -> Object | None:
    with watch:
        return await anext(steps, None)


async def _line(send: Send, told: Object, watch: Watch) -> None:
    with watch:
        watch.limit(_SLOW_READER_SECONDS, Cause.SLOW_READER)
        await send({"type": "http.response.body", "body": _encoded(told), "more_body": True})
        watch.no_limit()


def _start(request_id: bytes) -> Object:
    headers = [
        (b"content-type", b"application/x-ndjson"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", request_id),
    ]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _encoded(told: Object) -> bytes:
    return msgspec.json.encode(told) + b"\n"
