"""The whole ASGI application, put together: guard, CORS, Channels' router, gateway, Django."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

from channels.routing import ProtocolTypeRouter
from django.conf import settings
from django.core.asgi import get_asgi_application

from proxy.client_socket import PERSON
from proxy.conf import proxy_config
from proxy.consumers import GatewayApp
from proxy.endpoints import PUBLIC
from proxy.routing import is_gateway_path
from routerproj.behind_proxies import BehindProxies
from routerproj.cors import with_cors
from routerproj.guard import Application, Guard, GuardConfig, Receive, Scope, Send
from routerproj.model_page.access import may_see_runs
from routerproj.model_page.log_socket import LogSockets, is_log_path
from routerproj.ollama_port import OllamaPort
from routerproj.playing import carried, is_carried
from routerproj.socket_sessions import person_of
from scheduler.heartbeat import Heartbeat


def _is_gateways(path: str) -> bool:
    return is_gateway_path(path) or is_carried(path)


class Wiring:
    """`application` for the server, and `drain` for its ending."""

    def __init__(
        self,
        gateway: GatewayApp,
        django: Application,
        guard: GuardConfig,
        cors_origins: tuple[str, ...] = (),
        heartbeat: Heartbeat | None = None,
        ollama_port: int | None = None,
    ) -> None:
        self._heartbeat = heartbeat or Heartbeat(None)
        self._gateway = gateway
        self._gateway_http: Application = with_cors(gateway, cors_origins)
        self._django = django
        self._drained = False
        self._session_hosts = guard.django_hosts or ()
        self._log_sockets = LogSockets(settings.CORRAL_LOG_FOLDER)
        routes = {"http": self._http, "websocket": self._websocket, "lifespan": self._lifespan}
        guarded: Application = Guard(ProtocolTypeRouter(routes), guard, _is_gateways)
        if settings.CORRAL_TRUSTED_PROXIES and settings.CORRAL_CONNECTIONS_PER_ADDRESS:
            most = settings.CORRAL_CONNECTIONS_PER_ADDRESS
            guarded = BehindProxies(guarded, most, settings.CORRAL_TRUSTED_PROXIES)
        self.application: Application = (
            guarded if ollama_port is None else OllamaPort(guarded, ollama_port)
        )

    @classmethod
    def from_settings(
        cls, heartbeat: Heartbeat | None = None, ollama_port: int | None = None
    ) -> Wiring:
        origins = tuple(settings.CORRAL_CORS_ORIGINS)
        return cls(
            GatewayApp(proxy_config()),
            cast(Application, get_asgi_application()),
            GuardConfig(
                max_body=settings.CORRAL_MAX_BODY,
                max_upload=settings.CORRAL_MAX_UPLOAD,
                max_form=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
                body_timeout_seconds=settings.CORRAL_BODY_TIMEOUT,
                open_hosts=tuple(settings.ALLOWED_HOSTS) if settings.CORRAL_NO_AUTH else None,
                open_origins=origins,
                django_hosts=tuple(settings.ALLOWED_HOSTS),
                max_sockets=settings.CORRAL_WEBSOCKETS,
                access_log=settings.CORRAL_ACCESS_LOG,
            ),
            origins,
            heartbeat,
            ollama_port,
        )

    async def drain(self, timeout_seconds: float) -> None:
        """Answers under way may end, for so long; what is left gets an error and is cut."""
        if not self._drained:
            self._drained = True
            self._log_sockets.close()
            await self._gateway.drain(timeout_seconds)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in PUBLIC:  # which say more to a person in the admin
            scope = {**scope, PERSON: partial(person_of, scope, self._session_hosts)}
        gateway = is_gateway_path(path)
        if not gateway and (by_session := carried(scope, self._session_hosts)) is not None:
            await self._gateway(by_session, receive, send)  # never for pages of other origins
            return
        await (self._gateway_http if gateway else self._django)(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All but a model's log are the gateway's; it may ask who is in the admin."""
        if is_log_path(scope["path"]):
            person = partial(person_of, scope, self._session_hosts, may_see_runs)
            await self._log_sockets(scope, receive, send, person)
            return
        asked = partial(person_of, scope, self._session_hosts)
        await self._gateway({**scope, PERSON: asked}, receive, send)

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
