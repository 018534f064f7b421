"""How many small frames a client may send on a WebSocket. Reading one costs far more than its
bytes do: a few megabytes of empty fragments or of pings on some connections would keep a web
process from everybody else."""

from __future__ import annotations

SMALL = 1024
"""Bytes. What is larger is paid for by its own size, which has other limits."""
AT_ONCE = 1024
A_SECOND = 256
TOO_MANY = f"more than {AT_ONCE} frames of less than {SMALL} bytes at once, or {A_SECOND} a second"


class SmallFrames:
    """Of one connection."""

    def __init__(self) -> None:
        self._left = float(AT_ONCE)
        self._counted_at = 0.0

    def are_too_many_with(self, size: int, now: float) -> bool:
        """Counts one of `size` bytes that has come at `now`, in seconds of a steady clock."""
        if size >= SMALL:
            return False
        gained = (now - self._counted_at) * A_SECOND
        self._left = min(float(AT_ONCE), self._left + gained) - 1
        self._counted_at = now
        return self._left < 0
