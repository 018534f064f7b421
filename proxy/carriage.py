"""One request of a client's, and what carries it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from proxy.answers import Send
from proxy.body import Body
from proxy.callers import Caller
from proxy.endpoints import Endpoint
from proxy.relay import Relay
from proxy.usage.meter import Meter
from proxy.watch import CLIENT_GONE, Receive, Watch


@dataclass(slots=True)
class Request:
    """One HTTP request as the server hands it over, with its id."""

    scope: dict[str, Any]
    receive: Receive
    send: Send
    id: str
    headers: list[tuple[bytes, bytes]]

    @property
    def gone(self) -> asyncio.Future[None] | None:
        """Done when the client has left, where the server says it so."""
        found: asyncio.Future[None] | None = self.scope.get("extensions", {}).get(CLIENT_GONE)
        return found


@dataclass(slots=True)
class Carriage:
    """A request on its way, as far as it has come."""

    endpoint: Endpoint
    caller: Caller
    request: Request
    relay: Relay
    watch: Watch
    meter: Meter
    body: Body | None = None
    model: str = ""

    @property
    def in_query(self) -> bool:
        """Where its model is named."""
        return self.request.scope["method"] in ("GET", "HEAD")
