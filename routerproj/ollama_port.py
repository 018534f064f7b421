"""The port of Ollama's clients: what they look for there, and nothing of the admin."""

from __future__ import annotations

from proxy.routing import is_gateway_path
from routerproj.guard import Application, Receive, Scope, Send

RUNNING = b"Ollama is running"
"""The very words: programs look for them to find out whether a server is there."""
NOT_FOUND = b"404 page not found"


class OllamaPort:
    """What comes in by this port is the gateway's, and `/` says who is there. Everything else
    passes."""

    def __init__(self, application: Application, port: int) -> None:
        self._application = application
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._is_mine(scope) or is_gateway_path(scope["path"]):
            await self._application(scope, receive, send)
        elif scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            await _say(send, scope, 200, RUNNING)
        else:
            await _say(send, scope, 404, NOT_FOUND)

    def _is_mine(self, scope: Scope) -> bool:
        server = scope.get("server")
        return server is not None and server[1] == self._port


async def _say(send: Send, scope: Scope, status: int, text: bytes) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else text
    await send({"type": "http.response.body", "body": body})
