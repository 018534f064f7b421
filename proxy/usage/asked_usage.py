"""Streams of servers that tell their tokens only when asked to: the gateway asks, and keeps the one
event that answers it to itself.

Nothing else of a stream is changed. docs/decisions/0023-one-event-removed.md says why.
"""

from __future__ import annotations

import re

import msgspec

PATHS = frozenset({"/v1/chat/completions", "/chat/completions", "/v1/completions"})
"""Where OpenAI's `stream_options` mean something. Other dialects tell by themselves."""

_Fields = dict[str, msgspec.Raw]
_BETWEEN_EVENTS = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")


def ask(fields: _Fields) -> bool:
    """Put the question into a request's fields. False where it streams nothing, or asks itself."""
    if not _is_true(fields.get("stream")):
        return False
    try:
        options = msgspec.json.decode(fields.get("stream_options", b"null"), type=_Fields | None)
    except msgspec.ValidationError:
        return False  # who answers says what it thinks of it
    options = options or {}
    if _is_true(options.get("include_usage")):
        return False
    options["include_usage"] = msgspec.Raw(b"true")
    fields["stream_options"] = msgspec.Raw(msgspec.json.encode(options))
    return True


def _is_true(value: msgspec.Raw | None) -> bool:
    return value is not None and bytes(memoryview(value)[:5]) == b"true"


class _Event(msgspec.Struct):
    choices: list[msgspec.Raw]
    usage: dict[str, msgspec.Raw]


_event = msgspec.json.Decoder(_Event).decode


class WithoutUsage:
    """Leaves out of a stream the first event that holds the usage and nothing else."""

    def __init__(self) -> None:
        self._left_out = False

    def push(self, part: bytes) -> bytes:
        """`part` ends where an event ends, but for one that is longer than is held."""
        if self._left_out or b'"usage"' not in part:
            return part
        kept: list[bytes] = []
        for event in _BETWEEN_EVENTS.split(part):
            if not self._left_out and _is_usage(event):
                self._left_out = True
            else:
                kept.append(event)
        return b"".join(kept)


def _is_usage(event: bytes) -> bool:
    if not event.startswith(b"data:"):
        return False
    try:
        return not _event(event[5:]).choices
    except (msgspec.DecodeError, RecursionError):
        return False
