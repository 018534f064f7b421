"""The port of Ollama's clients: what they look for there, and nothing of the admin."""

from __future__ import annotations

import re

from proxy.routing import is_gateway_path
from routerproj.guard import Application, Receive, Scope, Send

RUNNING = b"Ollama is running"
"""The very words: programs look for them to find out whether a server is there."""
NOT_FOUND = b"404 page not found"
_KEY_IN_PATH = re.compile(r"/(ck_[a-z2-7]{8}_[A-Za-z0-9_-]{43})(/.*)", re.S)


class OllamaPort:
    """What comes in by this port is the gateway's, and `/` says who is there. Everything else
    passes. A path may begin with the key: `ollama` on the command line sends no header, and takes
    a path in OLLAMA_HOST (docs/decisions/0025)."""

    def __init__(self, application: Application, port: int) -> None:
        self._application = application
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_mine(scope):
            scope = _with_its_key(scope)
        if scope["type"] != "http" or not self._is_mine(scope) or is_gateway_path(scope["path"]):
            await self._application(scope, receive, send)
        elif scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            await _say(send, scope, 200, RUNNING)
        else:
            await _say(send, scope, 404, NOT_FOUND)

    def _is_mine(self, scope: Scope) -> bool:
        server = scope.get("server")
        return server is not None and server[1] == self._port


def _with_its_key(scope: Scope) -> Scope:
    """As if the key in its path had come as a header; one that has both is refused as two."""
    found = _KEY_IN_PATH.fullmatch(scope["path"])
    if found is None:
        return scope
    key, path = found.groups()
    raw = scope.get("raw_path") or scope["path"].encode()
    headers = [*scope["headers"], (b"authorization", f"Bearer {key}".encode())]
    return {**scope, "path": path, "raw_path": raw[len(key) + 1 :], "headers": headers}


async def _say(send: Send, scope: Scope, status: int, text: bytes) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else text
    await send({"type": "http.response.body", "body": body})
