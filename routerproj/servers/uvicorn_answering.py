"""An answer on uvicorn: the `send` that the application gets.

The state is uvicorn's (its `cycle`). The head of an answer is ours: uvicorn searches each name and
each value of it twice, which cost more than all of the guard's checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_NOT_IN_A_NAME = re.compile(rb'[\x00-\x20\x7f()<>@,;:\[\]={}\\"]')
_NOT_IN_A_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_MOST_NAMES = 512
_LONGEST_NAME = 64
_names: dict[bytes, bytes] = {}
"""Names of headers that are such, as they are written: there are few."""


class Answering:
    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    async def send(self, message: Any) -> None:
        cycle = self._cycle
        if cycle.response_started or message["type"] != "http.response.start":
            await cycle.send(message)
            return
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        headers = [*cycle.default_headers, *message.get("headers", ())]
        cycle.transport.write(_head(cycle, message["status"], headers))


def _head(
    cycle: RequestResponseCycle, status: int, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """Sets how the body is to be framed. Raises RuntimeError for what is no header."""
    lines = [STATUS_LINE[status]]
    values = []
    says_close = False
    for name, value in headers:
        written = _names.get(name) or _written(name)
        if written == b"content-length" and cycle.chunked_encoding is None:
            cycle.expected_content_length = int(value)
            cycle.chunked_encoding = False
        elif written == b"transfer-encoding" and value.lower() == b"chunked":
            cycle.expected_content_length = 0
            cycle.chunked_encoding = True
        elif written == b"connection":
            says_close = b"close" in [token.strip() for token in value.lower().split(b",")]
            cycle.keep_alive = cycle.keep_alive and not says_close
        lines += (written, b": ", value, b"\r\n")
        values.append(value)
    if _NOT_IN_A_VALUE.search(b"".join(values)):
        raise RuntimeError("a header of the answer holds a control character")
    if not cycle.keep_alive and not says_close:
        lines.append(b"connection: close\r\n")
    has_body = cycle.scope["method"] != "HEAD" and status not in (204, 304)
    if cycle.chunked_encoding is None and has_body:
        cycle.chunked_encoding = True
        lines.append(b"transfer-encoding: chunked\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


def _written(name: bytes) -> bytes:
    """Raises RuntimeError."""
    if _NOT_IN_A_NAME.search(name):
        raise RuntimeError(f"the name of a header of the answer is none: {name[:40]!r}")
    written = name.lower()
    if len(_names) < _MOST_NAMES and len(name) <= _LONGEST_NAME:
        _names[name] = written
    return written
