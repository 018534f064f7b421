"""What the events of a child's stream hold."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.protocol import Refused

LONGEST_EVENT = 8 << 20
"""Bytes."""


class Events:
    """Takes a stream apart as it comes: each event's data, without the comments between them."""

    def __init__(self) -> None:
        self._held = b""
        self._data: list[bytes] = []
        self._size = 0  # of these

    def push(self, part: bytes) -> Iterator[bytes]:
        """Raises Refused for an event that does not end."""
        *lines, self._held = (self._held + part).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].lstrip())
                self._size += len(line)
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data.clear()
                self._size = 0
        if len(self._held) + self._size > LONGEST_EVENT:
            raise Refused("upstream_failed", "The model's answer holds an event without an end.")
