"""What the gateway answers by itself, in one JSON document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from proxy import listing
from proxy.answers import send_json, send_text
from proxy.callers import Caller
from proxy.carriage import Request
from proxy.conf import ProxyConfig
from proxy.endpoints import Endpoint, Kind, model_named
from proxy.metrics.front import CONTENT_TYPE, Metrics
from proxy.model_changes import ModelChanges
from proxy.model_loading import ModelLoading
from proxy.ollama.front import Ollama
from proxy.readiness import Readiness
from proxy.reloading import Reload, reload_asked
from scheduler.client import SchedulerClient


class OwnAnswers:
    """Of one process."""

    def __init__(
        self,
        config: ProxyConfig,
        models: listing.ModelList,
        changes: ModelChanges,
        ollama: Ollama,
        readiness: Readiness,
        metrics: Metrics,
        scheduler: Callable[[], Awaitable[SchedulerClient]],
    ) -> None:
        """`scheduler` raises Refused when the gateway takes nothing new."""
        self._config = config
        self._models = models
        self._changes = changes
        self._ollama = ollama
        self._readiness = readiness
        self._metrics = metrics
        self._scheduler = scheduler
        self._loading = ModelLoading(config, changes.notes)
        self._reload = Reload()

    async def close(self) -> None:
        await self._reload.close()

    async def answer(self, endpoint: Endpoint, caller: Caller, request: Request) -> None:
        """Raises Refused."""
        status = 200
        if endpoint.kind is Kind.METRICS:
            await send_text(
                request.send, await self._metrics.page(), CONTENT_TYPE, request.id.encode()
            )
            return
        if endpoint.kind is Kind.READY:
            status, payload = await self._readiness.can_serve(request)
        elif endpoint.kind is Kind.HEALTH:
            payload = await self._readiness.lives(request)
        else:
            payload = await self._payload(endpoint, caller, request)
        headers = [(b"cache-control", b"no-store")]
        await send_json(request.send, status, payload, request.id.encode(), headers)

    async def _payload(self, endpoint: Endpoint, caller: Caller, request: Request) -> Any:
        query: bytes = request.scope["query_string"]
        match endpoint.kind:
            case Kind.FETCH:
                seconds = self._config.body_timeout_seconds
                return await self._changes.fetch(request, seconds)
            case Kind.REMOVE:
                return await self._changes.remove(request, query)
            case Kind.LOAD:
                return await self._loading.load(await self._scheduler(), caller, request)
            case Kind.UNLOAD:
                return await self._loading.unload(await self._scheduler(), caller, request)
            case Kind.OLLAMA_SAYS | Kind.OLLAMA_RUNS:
                return await self._ollama.say(endpoint, caller, request, self._scheduler)
            case Kind.PROPS:
                return listing.props(self._config)
            case Kind.MODEL:
                name = model_named(endpoint.path)
                return await self._models.one(await self._scheduler(), name, caller)
        if reload_asked(query):
            await self._reload.done()
        return await self._models.body(await self._scheduler(), caller)
