"""The least that a proxy in Python can do: an ASGI callable and one aiohttp session.

What Corral costs beyond this is keys, leases and their guarantees. UPSTREAM is a socket's path.
"""

from __future__ import annotations

import os
from typing import Any

import aiohttp

_sessions: list[aiohttp.ClientSession] = []


def _session() -> aiohttp.ClientSession:
    if not _sessions:
        connector = aiohttp.UnixConnector(os.environ["UPSTREAM"], force_close=True, limit=0)
        _sessions.append(aiohttp.ClientSession(connector=connector, auto_decompress=False))
    return _sessions[0]


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    async with _session().post(f"http://child{scope['path']}", data=body) as answer:
        headers = [(k.lower(), v) for k, v in answer.raw_headers if k != b"Transfer-Encoding"]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        async for data in answer.content.iter_any():
            await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
