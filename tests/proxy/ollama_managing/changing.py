"""How a client of Ollama asks for a change, and what it is told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async

from proxy.downloads import Downloads
from proxy.keys import create_key
from proxy.scopes import Scope
from tests.support.polling import eventually

from ..asking import Exchange
from ..fakes import Connection, Received

BLOB = b"GGUF" + bytes(range(256)) * 20
DIGEST = "sha256:" + hashlib.sha256(BLOB).hexdigest()
AWAY = "sha256:" + "0" * 64


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("nothing here asks a child")


waited = sync_to_async(eventually)


def is_there(path: Path) -> bool:
    return path.exists()


def key(scope: str = Scope.ADMIN) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + create_key("robot", scopes=[scope]).encode())]


async def asked(
    house: Any,
    path: str,
    body: object = None,
    *,
    method: str = "POST",
    headers: Any = (),
    raw: bytes | None = None,
) -> Exchange:
    data = json.dumps(body).encode() if raw is None else raw
    async with house(never_asked, downloads=Downloads()) as h:
        return await Exchange(h.app, path, method=method, body=data, headers=headers).end()


def lines(exchange: Exchange) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exchange.body.splitlines()]


def statuses(exchange: Exchange) -> list[str]:
    return [line.get("status", "") for line in lines(exchange)]
