"""Bytes as they come in, cut into lines of bounded length.

Used for a child's output and for the control socket alike: neither may grow our memory or end the
reading by a line that never ends.
"""

from __future__ import annotations


class LineSplitter:
    """Cuts at newlines. A line longer than `limit` bytes is dropped and counted in `dropped`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._skipping = False
        self.dropped = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their newlines."""
        *complete, rest = data.split(b"\n")
        lines = []
        for piece in complete:
            if not self._begun and not self._skipping and len(piece) <= self._limit:
                lines.append(piece)
                continue
            self._grow(piece)
            if self._skipping:
                self._skipping = False
            else:
                lines.append(bytes(self._begun))
            self._begun.clear()
        self._grow(rest)
        return lines

    def feed_whole(self, data: bytes) -> bytes:
        """The same lines as one piece, with their newlines."""
        end = data.rfind(b"\n") + 1
        begin = data.find(b"\n") + 1 if self._skipping else 0
        if end:
            self._skipping = False
            lines = bytes(self._begun) + data[begin:end]
            self._begun.clear()
        else:
            lines = b""
        self._grow(data[end:])
        return lines

    def end(self) -> bytes:
        """What came after the last newline; empty when there was nothing."""
        rest = b"" if self._skipping else bytes(self._begun)
        self._begun.clear()
        return rest

    def _grow(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._begun) + len(piece) > self._limit:
            self._begun.clear()
            self._skipping = True
            self.dropped += 1
            return
        self._begun += piece
