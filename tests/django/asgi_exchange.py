"""One ASGI request without a server: what the client sends, and what came back."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

HOST = [(b"host", b"localhost")]


def scope(
    raw_path: bytes = b"/v1/models",
    headers: list[tuple[bytes, bytes]] | None = None,
    method: str = "GET",
) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path.decode("latin-1")),
        "raw_path": raw_path,
        "root_path": "",
        "query_string": b"",
        "headers": HOST if headers is None else headers,
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8080),
    }


class Exchange:
    """`parts` are the body; after them the client waits, or has left when `leaves`."""

    def __init__(self, *parts: bytes, leaves: bool = False) -> None:
        self._parts = list(parts) or [b""]
        self._leaves = leaves
        self.read = 0
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        if self.read < len(self._parts):
            body = self._parts[self.read]
            self.read += 1
            more = self._leaves or self.read < len(self._parts)
            return {"type": "http.request", "body": body, "more_body": more}
        if self._leaves:
            return {"type": "http.disconnect"}
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert not self.status, "a second answer"
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.body += message.get("body", b"")

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])
