"""What a WebSocket's child says of the tokens of its answers: each answer's last message tells."""

from __future__ import annotations

from proxy.sse import Tail
from proxy.usage.counting import UNKNOWN, Counted, sane, sum_of


class SaidUsage:
    """Of one WebSocket."""

    def __init__(self) -> None:
        self._counted = UNKNOWN

    def hear(self, message: str | bytes) -> bool:
        """Whether it told of any."""
        if isinstance(message, bytes) or '"usage"' not in message:
            return False
        tail = Tail()
        tail.push(message.encode())
        told = tail.usage()
        self._counted = sum_of(
            self._counted, Counted(sane(told.read), sane(told.cached), sane(told.answered))
        )
        return True

    def counted(self) -> Counted:
        return self._counted
