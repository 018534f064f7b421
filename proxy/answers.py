"""Answers that the gateway writes itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from proxy.dialects import Dialect
from proxy.endpoints import MethodNotAllowed
from proxy.limits.headers import rate_headers
from scheduler.protocol import Refused, retry_after

Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

_NOT_READ = {"invalid_api_key", "auth_unavailable", "body_too_large", "request_timeout"}
"""Refusals whose body may be under way still: the connection ends with them."""


class NoRoom(Refused):
    """The body cannot be kept: it was not read to its end, and the connection ends."""

    def __init__(self, why: str) -> None:
        super().__init__("queue_full", why, retry_after_seconds=5.0)


async def send_json(
    send: Send, status: int, payload: object, request_id: bytes, headers: list[Header] | None = None
) -> None:
    body = msgspec.json.encode(payload)
    await _send(send, status, body, b"application/json; charset=utf-8", request_id, headers or ())


async def send_text(send: Send, text: bytes, content_type: bytes, request_id: bytes) -> None:
    """200."""
    no_store = [(b"cache-control", b"no-store")]
    await _send(send, 200, text, content_type, request_id, no_store)


async def _send(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes,
    request_id: bytes,
    headers: Iterable[Header],
) -> None:
    start: list[Header] = [
        (b"content-type", content_type),
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", request_id),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def send_nothing(send: Send, request_id: bytes) -> None:
    """204."""
    headers: list[Header] = [(b"x-request-id", request_id), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def send_refusal(
    send: Send,
    refused: Refused,
    dialect: Dialect,
    model: str,
    request_id: bytes,
    rate: Sequence[Header] = (),
) -> None:
    """The refusal in the dialect's shape, with what a client needs to know about trying again.
    `rate` is what was left of its limits before, where the refusal does not say it."""
    answer = dialect(refused, model)
    headers: list[Header] = [(b"cache-control", b"no-store")]
    if refused.retry_after_seconds is not None:
        headers.append((b"retry-after", retry_after(refused.retry_after_seconds).encode()))
    if not refused.kind.retry:
        headers.append((b"x-should-retry", b"false"))
    if answer.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if answer.status == 426:
        headers += [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
    if isinstance(refused, MethodNotAllowed):
        headers.append((b"allow", ", ".join(refused.allowed).encode()))
    headers += rate_headers(refused.rate, dialect) or rate
    if refused.code in _NOT_READ or isinstance(refused, NoRoom):
        headers.append((b"connection", b"close"))
    await send_json(send, answer.status, answer.body, request_id, headers)
