"""The text in an answer: of a stream its pieces put together, so that a secret that was told token
by token is one again, and can be taken out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_PARTS = ("reasoning_content", "thinking", "content", "text", "partial_json", "arguments")
_INSIDE = ("choices", "delta", "message", "function", "tool_calls", "output", "response")
"""Where texts are in the answers of all dialects, and what they stand in."""
_DEEPEST = 8


def text_in(answer: bytes, *, is_stream: bool) -> str:
    """As much of it as can be found; the answer itself where that is nothing."""
    found = "".join(_of_stream(answer) if is_stream else _of_object(answer))
    return found or answer.decode("utf-8", "replace")


def _of_stream(answer: bytes) -> Iterator[str]:
    for line in answer.splitlines():
        if line.startswith(b"data:"):
            event = _decoded(line[5:])
            # Its last event tells all of it again.
            if isinstance(event, dict) and event.get("type") != "response.completed":
                yield from _texts(event, _DEEPEST)


def _of_object(answer: bytes) -> Iterator[str]:
    yield from _texts(_decoded(answer), _DEEPEST)


def _texts(value: Any, deepest: int) -> Iterator[str]:
    if deepest == 0:
        return
    if isinstance(value, list):
        for each in value:
            yield from _texts(each, deepest - 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str) and name in (*_PARTS, "delta"):
                yield inner
            elif name in _INSIDE or name in _PARTS:
                yield from _texts(inner, deepest - 1)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
