"""A child's errors on their way to a client: in the form of the dialect that was spoken, and a
request that cannot be answered as the client's mistake, not as a server's failure.

llama-server writes all its errors as OpenAI does, whatever the path; and what it cannot take it
often answers with 500, which libraries then send again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from proxy.dialects import Dialect, anthropic
from proxy.upstream import Coming

_MISTAKES = (
    "image input is not supported",
    "audio input is not supported",
    "video input is not supported",
    "Failed to load image",
    "Invalid base64 value",
    "'messages' is required",
    '"prompt" is required',
    '"prompt" must not be empty',
    '"prompt" elements must be',
    "Multimodal data provided, but model does not support",
    "Cannot use both json_schema and grammar",
    "Unsupported param:",
    "Only no echo is supported",
    "tools param requires --jinja",
    "tool_choice param requires --jinja",
)
"""How the messages of llama-server begin that it sends with 500 and that no waiting cures."""

_MISTAKE = "invalid_request_error"


@dataclass(frozen=True, slots=True)
class Told:
    """An answer that is whole, in other words than the child's."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    first: bytes
    is_stream: bool = False
    is_encoded: bool = False
    ended: bool = True

    async def more(self) -> bytes:
        return b""


def as_told(answer: Coming, dialect: Dialect) -> Coming:
    """`answer` itself, unless it is an error that is to be told otherwise."""
    if answer.status < 400 or not answer.ended or answer.is_stream or answer.is_encoded:
        return answer
    error = _error_in(answer.first)
    if error is None:
        return answer
    status = 400 if answer.status == 500 and _is_a_mistake(error) else answer.status
    if dialect is anthropic.error_answer:
        body = anthropic.error_body(status, str(error.get("message", "")), error)
    elif status != answer.status:
        body = {"error": {**error, "code": status, "type": _MISTAKE}}
    else:
        return answer
    encoded = msgspec.json.encode(body)
    length = (b"content-length", str(len(encoded)).encode())
    kept = [header for header in answer.headers if header[0] != b"content-length"]
    return Told(status, [*kept, length], encoded)


def _error_in(body: bytes) -> dict[str, Any] | None:
    """As OpenAI writes it; one that has Anthropic's form already is left as it is."""
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
    error = told.get("error")
    return error if isinstance(error, dict) and told.get("type") != "error" else None


def _is_a_mistake(error: dict[str, Any]) -> bool:
    message = error.get("message")
    return isinstance(message, str) and message.startswith(_MISTAKES)
