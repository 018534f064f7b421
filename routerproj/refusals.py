"""Refusals from before the gateway is asked: an HTTP answer in the OpenAI shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus

from scheduler.protocol import ERRORS, Refused, retry_after

Header = tuple[bytes, bytes]

JSON = b"application/json; charset=utf-8"


def refusal(
    error: Refused, request_id: str, *, plain: bool = False
) -> tuple[int, list[Header], bytes]:
    """Status, headers and body; a sentence for people when `plain`. The connection is closed after
    it: what follows was not read."""
    kind = ERRORS[error.code]
    if plain:
        body = f"{error.message[:1].upper()}{error.message[1:]}.\n".encode()
    else:
        told = {"message": error.message, "type": kind.type, "param": None, "code": error.code}
        body = json.dumps({"error": told}).encode()
    headers: list[Header] = [
        (b"content-type", b"text/plain; charset=utf-8" if plain else JSON),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        (b"x-request-id", request_id.encode()),
    ]
    if error.retry_after_seconds is not None:
        headers.append((b"retry-after", retry_after(error.retry_after_seconds).encode()))
    if not kind.retry:
        headers.append((b"x-should-retry", b"false"))
    return kind.status, headers, body


def on_the_wire(status: int, headers: Sequence[Header], body: bytes) -> bytes:
    """For a server that has no request to answer through: the bytes of a whole HTTP/1.1 answer."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
