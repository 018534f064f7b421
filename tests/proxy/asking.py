"""A client at the ASGI level: it sends a body, reads or does not, and may leave at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from proxy.consumers import GatewayApp


class Exchange:
    """One request to the application, and what has come back so far."""

    def __init__(
        self,
        app: GatewayApp,
        path: str = "/v1/chat/completions",
        *,
        method: str = "POST",
        body: bytes | None = None,
        query: bytes = b"",
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self._to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        if body is not None:
            self.give(body)
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": list(headers),
        }
        self.task = asyncio.create_task(app(scope, self._to_app.get, self._send))

    def give(self, part: bytes, *, more: bool = False) -> None:
        self._to_app.put_nowait({"type": "http.request", "body": part, "more_body": more})

    def leave(self) -> None:
        self._to_app.put_nowait({"type": "http.disconnect"})

    async def end(self) -> Exchange:
        async with asyncio.timeout(30):
            await self.task
        return self

    async def _send(self, message: dict[str, Any]) -> None:
        await self.reading.wait()
        self.messages.append(message)

    @property
    def status(self) -> int | None:
        return self.messages[0]["status"] if self.messages else None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return self.messages[0]["headers"]

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def ended_well(self) -> bool:
        """As HTTP sees it: the last part was marked as the last."""
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)


def chat(model: object = "tiny", **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": [], **fields}).encode()


async def until(condition: Callable[[], Any]) -> None:
    """Until it is so; not longer than half a minute."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)
