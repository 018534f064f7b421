"""The reading end of a process's heartbeat (scheduler/heartbeat.py)."""

from __future__ import annotations

import os
from types import TracebackType


class Pulse:
    """A pipe, closed at the end of its block. The process beats into `writing`."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)

    def heard(self) -> bool:
        """Whether there was a beat since the last question."""
        try:
            return bool(os.read(self._reading, 1 << 16))
        except BlockingIOError:
            return False

    def __enter__(self) -> Pulse:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._reading)
        os.close(self.writing)
