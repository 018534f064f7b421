"""A process's sign of life to `serve`: a byte into an inherited pipe, from what must not hang.

A question over HTTP would not do for a web process: several share one socket, and another answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

BEAT_SECONDS = 2.0


class Heartbeat:
    def __init__(self, descriptor: int | None) -> None:
        """With None nobody listens, and nothing is written."""
        self._descriptor = descriptor
        if descriptor is not None:
            os.set_blocking(descriptor, False)
            os.set_inheritable(descriptor, False)

    def beat(self) -> None:
        if self._descriptor is None:
            return
        # A full pipe: `serve` has enough to read. A broken one: it is gone, and we are going.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._descriptor, b".")

    async def beat_on(self) -> None:
        """Until cancelled."""
        while self._descriptor is not None:
            self.beat()
            await asyncio.sleep(BEAT_SECONDS)
