"""An upstream that costs next to nothing, so that what stands before it can be measured.

Takes llama-server's command line, listens where that says (`--host PATH.sock`, or `--host` and
`--port`) and speaks its child protocol. A body with `"stream":true` gets 64 events as fast as they
go; with `"pace_ms"` as many as `"max_tokens"` says, one every so many milliseconds. Any other gets
one small JSON answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from typing import cast

import uvloop

EVENTS = 64


def _plain() -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": "alpha",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "Hi."},
                }
            ],
            "usage": {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10},
        }
    ).encode()
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _event(content: str, finish_reason: str | None) -> bytes:
    choice = {"index": 0, "finish_reason": finish_reason, "delta": {"content": content}}
    event = {"id": "0", "object": "chat.completion.chunk", "model": "alpha", "choices": [choice]}
    return _chunk(b"data: " + json.dumps(event).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


PLAIN = _plain()
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
WORD, STOP = _event(" word", None), _event("", "stop")
STREAM = [WORD] * (EVENTS - 1) + [STOP]
PACED = re.compile(rb'"max_tokens":(\d+).*"pace_ms":(\d+)')
STREAM_END = _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
SLOTS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"


class Upstream(asyncio.Protocol):
    """One connection: whole requests in, canned answers out, kept open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._received = b""
        self._streams: set[asyncio.Task[None]] = set()

    def connection_lost(self, _error: Exception | None) -> None:
        for stream in self._streams:
            stream.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _content_length(head)
        if len(rest) < length:
            return
        self._received = rest[length:]
        if not head.startswith(b"POST"):
            self._transport.write(SLOTS)
        elif b'"stream":true' in (body := rest[:length].replace(b" ", b"")):
            paced = PACED.search(body)
            answer = self._paced(int(paced[1]), int(paced[2])) if paced else self._stream()
            stream = asyncio.get_running_loop().create_task(answer)
            self._streams.add(stream)
            stream.add_done_callback(self._streams.discard)
        else:
            self._transport.write(PLAIN)

    async def _stream(self) -> None:
        """Event by event, as a child sends them: one write each, others served between them."""
        self._transport.write(STREAM_HEAD)
        for event in STREAM:
            self._transport.write(event)
            await asyncio.sleep(0)
        self._transport.write(STREAM_END)

    async def _paced(self, events: int, milliseconds: int) -> None:
        """By the clock: an event that was late does not delay those after it."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        self._transport.write(STREAM_HEAD)
        for number in range(1, events + 1):
            await asyncio.sleep(max(0.0, begun + number * milliseconds / 1000 - clock()))
            self._transport.write(WORD if number < events else STOP)
        self._transport.write(STREAM_END)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def serve(host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    if host.endswith(".sock"):
        await loop.create_unix_server(Upstream, host, backlog=1024)
    else:
        await loop.create_server(Upstream, host, port, backlog=1024)
    for value in (0.0, 1.0):
        _report("loading", {"stages": ["text_model"], "current": "text_model", "value": value})
    _report("ready", {"id": "alpha", "meta": {"n_ctx": 2048}})
    asked_to_exit = loop.run_in_executor(None, _wait_for_exit)
    await asked_to_exit


def _report(state: str, payload: object) -> None:
    line = json.dumps({"state": state, "payload": payload}, separators=(",", ":"))
    print(f"cmd_child_to_router:state:{line}", flush=True)


def _wait_for_exit() -> None:
    for line in sys.stdin:
        if line.strip() == "cmd_router_to_child:exit":
            return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    known, _ = parser.parse_known_args()
    uvloop.run(serve(known.host, known.port))
