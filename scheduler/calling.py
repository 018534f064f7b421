"""One operation on the control socket, synchronously; and how lines of it are written and read."""

from __future__ import annotations

import socket as sockets
from pathlib import Path
from typing import Any

import msgspec

from .protocol import LINE_LIMIT, Operation, Refused, Reply, ReplyLine

_encode = msgspec.json.Encoder().encode
decode_reply = msgspec.json.Decoder(Reply).decode
decode_line = msgspec.json.Decoder(ReplyLine).decode


def call(socket: Path, operation: Operation, timeout: float = 5.0) -> dict[str, Any]:
    """One operation, synchronously, on a connection of its own; what the reply's `ok` holds.

    Raises Refused, with the code scheduler_unavailable when nobody answers in time.
    """
    line = line_of(operation)
    try:
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(socket))
            connection.sendall(line + b"\n")
            with connection.makefile("rb") as replies:
                answer = replies.readline(64 * LINE_LIMIT)
    except OSError as failure:
        raise unavailable() from failure
    if not answer.endswith(b"\n"):
        raise unavailable()
    reply = decode_reply(answer)
    if reply.error is not None:
        raise refused_by(reply)
    return reply.ok or {}


def line_of(operation: Operation) -> bytes:
    """Raises Refused for one that the scheduler would not read."""
    try:
        line = _encode(operation)
    except UnicodeEncodeError as problem:
        raise Refused("invalid_request", f"it holds what is no text: {problem.reason}") from None
    if len(line) >= LINE_LIMIT:
        raise Refused("invalid_request", f"it takes more than {LINE_LIMIT} bytes to ask for this")
    return line


def refused_by(reply: Reply | ReplyLine) -> Refused:
    assert reply.error is not None
    return Refused(
        reply.error.code,
        reply.error.message,
        retry_after_seconds=reply.error.retry_after,
        rate=reply.error.rate,
    )


def unavailable() -> Refused:
    return Refused(
        "scheduler_unavailable",
        "the scheduler does not answer: it is starting again, or `manage.py runscheduler` "
        "(or `serve`) is not running",
        retry_after_seconds=5.0,
    )
