"""Where bodies are parsed: small ones at once, large ones in a thread, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from proxy.body import Body

Found = TypeVar("Found")

AT_ONCE = 1 << 20
"""Bytes. A larger body is parsed in a thread: the loop has its turns meanwhile."""


class Parsing:
    """One per process."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, body: Body, look: Callable[[], Found]) -> Found:
        """What `look` finds in `body`."""
        if body.size <= AT_ONCE:
            return look()
        async with self._lock:
            return await asyncio.to_thread(look)
