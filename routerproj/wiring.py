"""The whole ASGI application, put together: guard, CORS, Channels' router, gateway, Django."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from channels.routing import ProtocolTypeRouter
from django.conf import settings
from django.core.asgi import get_asgi_application

from proxy.conf import proxy_config
from proxy.consumers import GatewayApp
from proxy.routing import is_gateway_path
from routerproj.cors import with_cors
from routerproj.guard import Application, Guard, GuardConfig, Receive, Scope, Send
from scheduler.heartbeat import Heartbeat


class Wiring:
    """`application` for the server, and `drain` for its ending."""

    def __init__(
        self,
        gateway: GatewayApp,
        django: Application,
        guard: GuardConfig,
        cors_origins: tuple[str, ...] = (),
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._heartbeat = heartbeat or Heartbeat(None)
        self._gateway = gateway
        self._gateway_http: Application = with_cors(gateway, cors_origins)
        self._django = django
        self._drained = False
        routes = {"http": self._http, "websocket": _no_websocket, "lifespan": self._lifespan}
        self.application: Application = Guard(ProtocolTypeRouter(routes), guard, is_gateway_path)

    @classmethod
    def from_settings(cls, heartbeat: Heartbeat | None = None) -> Wiring:
        origins = tuple(settings.CORRAL_CORS_ORIGINS)
        return cls(
            GatewayApp(proxy_config()),
            cast(Application, get_asgi_application()),
            GuardConfig(
                max_body=settings.CORRAL_MAX_BODY,
                max_form=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
                body_timeout_seconds=settings.CORRAL_BODY_TIMEOUT,
                open_hosts=tuple(settings.ALLOWED_HOSTS) if settings.CORRAL_NO_AUTH else None,
                open_origins=origins,
                django_hosts=tuple(settings.ALLOWED_HOSTS),
            ),
            origins,
            heartbeat,
        )

    async def drain(self, timeout_seconds: float) -> None:
        """Answers under way may end, for so long; what is left gets an error and is cut."""
        if not self._drained:
            self._drained = True
            await self._gateway.drain(timeout_seconds)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = is_gateway_path(scope["path"])
        await (self._gateway_http if gateway else self._django)(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The gateway opens what it needs with its first request, and `drain` closes it. Our own
        servers have drained before this; another one has let its answers end."""
        beating = asyncio.create_task(self._heartbeat.beat_on(), name="heartbeat")
        try:
            await self._live(receive, send)
        finally:
            beating.cancel()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.drain(0.0)
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


async def _no_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Nothing speaks WebSocket yet: the handshake is refused, not left hanging."""
    message: Any = await receive()
    if message["type"] == "websocket.connect":
        await send({"type": "websocket.close", "code": 1000, "reason": "nothing here"})
