"""What one address may have under way at once, where proxies of ours stand before us: their
connections are of everybody, so requests and WebSockets are counted, by what the proxy says."""

from __future__ import annotations

import logging
from collections.abc import Collection

from models_registry.client_address import Network, address_behind
from routerproj import guard_rules as rules
from routerproj.addresses import TOO_MANY_OF_ADDRESS, Addresses, house_of, is_proxy
from routerproj.guard import Application, Receive, Scope, Send, refuse_socket
from routerproj.refusals import refusal
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)


class BehindProxies:
    def __init__(self, application: Application, most: int, proxies: Collection[Network]) -> None:
        self._application = application
        self._proxies = proxies
        self._addresses = Addresses(most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        house = self._house(scope)
        over = self._addresses.count(house)
        try:
            if over:
                await _refuse(scope, receive, send)
            else:
                await self._application(scope, receive, send)
        finally:
            self._addresses.take_back(house)

    def _house(self, scope: Scope) -> str:
        if scope["type"] not in ("http", "websocket"):
            return ""
        peer, *_ = scope.get("client") or ("",)
        if not is_proxy(peer, self._proxies):
            return ""  # the server counts its connections
        forwarded = rules.first_value(scope, b"x-forwarded-for").decode("latin-1")
        return house_of(address_behind(peer, forwarded) or "")


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    error = Refused("too_many_connections", TOO_MANY_OF_ADDRESS, retry_after_seconds=1.0)
    identifier = rules.request_id_of(scope)
    logger.info("refused: %s", error.message)
    if scope["type"] == "websocket":
        await receive()
        await refuse_socket(scope, send, error, identifier)
        return
    status, headers, body = refusal(error, identifier)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
