"""Where bodies are parsed: small ones at once, large ones in a thread, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from proxy.addressing import address, address_form
from proxy.body import Body

Found = TypeVar("Found")

AT_ONCE = 1 << 20
"""Bytes. A larger body is parsed in a thread: the loop has its turns meanwhile."""


class Parsing:
    """One per process."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def model_in(self, body: Body, form: bytes | None) -> str:
        """Which model it names. `form` is the Content-Type of a multipart form, None for JSON.
        Raises Refused."""
        return await self.run(body, partial(_address, body, form))

    async def run(self, body: Body, look: Callable[[], Found]) -> Found:
        """What `look` finds in `body`."""
        if body.size <= AT_ONCE:
            return look()
        async with self._lock:
            return await asyncio.to_thread(look)


def _address(body: Body, form: bytes | None) -> str:
    with body.view() as view:
        return address(view) if form is None else address_form(view, form)
