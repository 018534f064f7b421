"""Server-sent events as bytes: whole frames, an error as a frame, the usage at an answer's end."""

from __future__ import annotations

import json
import re
from collections import deque
from typing import Annotated, Any

import msgspec

_FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_HOLD_LIMIT = 64 << 10


def error_frame(body: bytes, event: str = "") -> bytes:
    """`body` is JSON on one line. No `[DONE]` follows it: a cut answer never looks whole."""
    name = b"event: %b\n" % event.encode() if event else b""
    return name + b"data: " + body + b"\n\n"


class WholeFrames:
    """Lets bytes through up to the end of a frame, so that an error can follow at any moment.

    No byte is changed, and none waits that could be used: clients read frames. A frame longer than
    the limit is passed on in parts.
    """

    def __init__(self) -> None:
        self._held = b""
        self._inside_frame = False

    def push(self, chunk: bytes) -> bytes:
        """The bytes that may go now; may be empty."""
        if not self._held and chunk.endswith(_FRAME_ENDS):
            self._inside_frame = False
            return chunk
        waiting = self._held + chunk
        end = max(waiting.rfind(mark) + len(mark) if mark in waiting else 0 for mark in _FRAME_ENDS)
        if end == 0 and len(waiting) > _HOLD_LIMIT:
            self._held = b""
            self._inside_frame = True
            return waiting
        self._held = waiting[end:]
        if end:
            self._inside_frame = False
        return waiting[:end]

    def rest(self) -> bytes:
        """What was held back: for an answer that ended well without the end of a frame."""
        held, self._held = self._held, b""
        return held

    def error(self, body: bytes, event: str = "") -> bytes:
        """An error event in place of what was held back."""
        self._held = b""
        frame = error_frame(body, event)
        return b"\n\n" + frame if self._inside_frame else frame


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one answer. `read` counts the whole prompt, of which `cached` were not computed.
    What the answer does not state is None."""

    read: int | None = None
    cached: int | None = None
    answered: int | None = None


_TAIL_BYTES = 16 << 10
_HEAD_BYTES = 1 << 10
_JSON = json.JSONDecoder()
# Inside a JSON string each quote is escaped, so model output cannot look like one of these.
_FIGURES = re.compile(rb'"(usage|timings)"\s*:\s*\{')


class Tail:
    """The first and last bytes of an answer, whatever its length, and the usage found in them.

    llama-server states `timings` in the last event of a stream and at the end of an answer, and
    `usage` at the end, too, but for embeddings before the vectors. Anthropic's streams tell what
    was read in their first event, and do not count what was cached as read.
    """

    def __init__(self) -> None:
        self.events = 0
        """Those that have gone by, if this is a stream."""
        self._head = b""
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._is_all = True
        """Nothing has been left out."""

    def push(self, chunk: bytes) -> None:
        self.events += chunk.count(b"\n\n") or chunk.count(b"\r\n\r\n")
        if len(self._head) < _HEAD_BYTES:
            self._head += chunk[: _HEAD_BYTES - len(self._head)]
        if len(chunk) > _TAIL_BYTES:
            chunk = chunk[-_TAIL_BYTES:]
            self._is_all = False
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= _TAIL_BYTES:
            self._size -= len(self._chunks.popleft())
            self._is_all = False

    def usage(self) -> Usage:
        tail = b"".join(self._chunks)
        if self._is_all and (plain := _told_plainly(tail)) is not None:
            return plain
        end = _figures(tail)
        begin = end if tail == self._head else _figures(self._head)  # a short answer is both
        usage = {**begin.get("usage", {}), **end.get("usage", {})}
        timings = end.get("timings") or begin.get("timings", {})
        cached = _first(
            _inside(usage, "prompt_tokens_details", "cached_tokens"),
            _inside(usage, "input_tokens_details", "cached_tokens"),
            _count(usage, "cache_read_input_tokens"),
            _count(timings, "cache_n"),
        )
        return Usage(
            read=_first(
                _count(usage, "prompt_tokens"),
                _sum(usage, "input_tokens", "cache_read_input_tokens"),
                _sum(timings, "prompt_n", "cache_n"),
            ),
            cached=cached,
            answered=_first(
                _count(usage, "completion_tokens"),
                _count(usage, "output_tokens"),
                _count(timings, "predicted_n"),
            ),
        )


_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None


class _Usage(msgspec.Struct):
    """OpenAI's, as almost every whole answer states it."""

    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: _Details | None = None
    input_tokens_details: None = None
    cache_read_input_tokens: None = None


class _Timings(msgspec.Struct):
    cache_n: _Count | None = None


class _Whole(msgspec.Struct):
    usage: _Usage
    timings: _Timings | None = None


_PLAIN = msgspec.json.Decoder(_Whole)


def _told_plainly(whole: bytes) -> Usage | None:
    """Of an answer that is one JSON object with OpenAI's usage; None of any other."""
    if not whole.startswith(b"{") or whole.count(b'"usage"') != 1:
        return None
    try:
        told = _PLAIN.decode(whole)
    except msgspec.DecodeError:
        return None
    usage, timings = told.usage, told.timings
    details = usage.prompt_tokens_details
    cached = None if details is None else details.cached_tokens
    if cached is None and timings is not None:
        cached = timings.cache_n
    return Usage(usage.prompt_tokens, cached, usage.completion_tokens)


def _figures(part: bytes) -> dict[str, dict[str, Any]]:
    """The last whole `usage` and `timings` objects in `part`."""
    found: dict[str, dict[str, Any]] = {}
    for match in reversed(list(_FIGURES.finditer(part))):
        name = match[1].decode()
        if name in found:
            continue
        text = part[match.end() - 1 :].decode("utf-8", "replace")
        try:
            found[name], _ = _JSON.raw_decode(text)
        except (ValueError, RecursionError):
            continue  # cut by the end of `part`
    return found


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def _sum(figures: dict[str, Any], name: str, more: str) -> int | None:
    """`name`, and `more` where that is told beside it."""
    count = _count(figures, name)
    return None if count is None else count + (_count(figures, more) or 0)


def _inside(figures: dict[str, Any], outer: str, name: str) -> int | None:
    details = figures.get(outer)
    return _count(details, name) if isinstance(details, dict) else None


def _count(figures: dict[str, Any], name: str) -> int | None:
    value = figures.get(name)
    odd = isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53
    return None if odd else value
