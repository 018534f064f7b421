"""Requests of Ollama's clients: planned, carried as all others are, or answered here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from proxy.audit_notes import AuditNotes
from proxy.body import Body, Room, kept_body
from proxy.callers import Caller
from proxy.carriage import Carriage, Request
from proxy.conf import ProxyConfig
from proxy.endpoints import Endpoint
from proxy.forwarding import Carriers, Forwarding, Order
from proxy.headers import RawHeaders, head_for_child
from proxy.listing import ModelList
from proxy.model_changes import small_body
from proxy.ollama.models import OllamaModels, status, version
from proxy.ollama.planning import EMBED_PATH, Plan, planned
from proxy.ollama.relay import OllamaRelay, Told
from proxy.ollama.telling import Object, Telling, told_at
from proxy.ollama.vectors import Vectors
from proxy.ollama.wire import Show, decoded
from proxy.parsing import Parsing
from proxy.permissions import lacks
from proxy.remote.request import Asked
from proxy.scopes import Scope
from proxy.stickiness import sticky_of
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused

_OURS = frozenset({b"content-type", b"accept"})
"""Headers that speak of Ollama's body, not of the child's."""


class Ollama:
    """One per process."""

    def __init__(
        self,
        config: ProxyConfig,
        parsing: Parsing,
        room: Room,
        models: ModelList,
        notes: AuditNotes,
    ) -> None:
        self._config = config
        self._parsing = parsing
        self._room = room
        self._models = OllamaModels(models)
        self._notes = notes

    async def close(self) -> None:
        await self._models.close()

    async def say(
        self,
        endpoint: Endpoint,
        caller: Caller,
        request: Request,
        scheduler: Callable[[], Awaitable[SchedulerClient]],
    ) -> Object:
        """What the gateway answers by itself. Raises Refused."""
        match endpoint.path:
            case "/api/version":
                return version()
            case "/api/status":
                return status()
            case "/api/tags":
                return await self._models.tags(caller)
            case "/api/ps":
                return await self._models.ps(await scheduler(), caller)
        body = await small_body(request.receive, self._config.body_timeout_seconds)
        asked = decoded(body, Show)
        agent = dict(request.headers).get(b"user-agent", b"")
        return await self._models.show(asked, caller, agent)

    async def carry(self, carriage: Carriage, carriers: Carriers, arrived: float) -> None:
        """Raises Refused or Interrupted: the relay knows how it can still be said."""
        assert carriage.body is not None
        relay, caller = carriage.relay, carriage.caller
        assert isinstance(relay, OllamaRelay)
        model = carriage.model = await self._parsing.model_in(carriage.body, None)
        carriage.meter.asks_for(model)
        carriage.meter.reads(carriage.body)
        path = carriage.endpoint.path
        plan, translated = await self._planned(path, carriage.body, model)
        relay.ignored = plan.ignored
        if plan.keep_alive is not None and Scope.LOAD not in caller.scopes:
            relay.lacks_load(b"keep_alive")
        relay.tells(_told(path, model, plan), arrived)
        if plan.needs:
            await self._models.refuse_what_it_cannot(model, caller, plan.needs)
        carriage.body.close()
        carriage.body = await kept_body(translated, self._room, self._config)
        order = self._order(carriage, carriage.body, plan, arrived)
        if plan.path:
            await Forwarding(order, carriers, relay, carriage.watch).run()
        else:
            await self._load_or_let_go(order, carriers, carriage, plan)

    async def _load_or_let_go(
        self, order: Order, carriers: Carriers, carriage: Carriage, plan: Plan
    ) -> None:
        """An empty request: the model is loaded for it, and with a keep-alive of 0 let go."""
        relay, model, path = carriage.relay, carriage.model, carriage.endpoint.path
        assert isinstance(relay, OllamaRelay)
        goes = plan.keep_alive == 0 and path in ("/api/chat", "/api/generate")
        if goes:
            caller = carriage.caller
            if Scope.LOAD not in caller.scopes:
                raise lacks(Scope.LOAD)
            own = caller.own_names(model)
            await carriers.scheduler.keep(model, caller.team, 0.0, own, caller.allowed)
        else:
            await Forwarding(order, carriers, relay, carriage.watch).load()
        action = "unloaded" if goes else "loaded"
        await self._notes.note(action, model, carriage.caller, carriage.request)
        carriage.meter.served()
        told = _empty(path, model, "unload" if goes else "load")
        await relay.say(told)

    async def _planned(self, path: str, body: Body, model: str) -> tuple[Plan, bytes]:
        """Raises Refused."""
        outcome = await self._parsing.run(body, partial(_look, path, body, model))
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    def _order(self, carriage: Carriage, body: Body, plan: Plan, arrived: float) -> Order:
        request = carriage.request
        headers = _for_json(request.headers)
        return Order(
            id=request.id,
            head=head_for_child("POST", plan.path, b"", headers, request.id),
            body=body,
            model=carriage.model,
            caller=carriage.caller,
            autoload=self._config.models_autoload,
            arrived=arrived,
            asked=Asked("POST", plan.path, b"", headers),
            meter=carriage.meter,
            sticky=sticky_of(request.headers, carriage.caller.team, body),
            keep_alive=plan.keep_alive,
        )


def _look(path: str, body: Body, model: str) -> tuple[Plan, bytes] | Refused:
    with body.view() as view:
        return planned(path, view, model)


def _for_json(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    kept = [header for header in headers if header[0] not in _OURS]
    return [*kept, (b"content-type", b"application/json")]


def _told(path: str, model: str, plan: Plan) -> Told:
    if plan.path == EMBED_PATH:
        return Vectors(model, path == "/api/embeddings", plan.dimensions)
    return Telling(model, path == "/api/chat", plan.streams, plan.finally_told)


def _empty(path: str, model: str, reason: str) -> Object:
    """The answer to a request in which nothing is asked."""
    if path == "/api/embed":
        return {"model": model, "embeddings": []}
    if path == "/api/embeddings":
        return {"embedding": []}
    told: dict[str, Any] = {"model": model, "created_at": told_at()}
    said: Object = {"role": "assistant", "content": ""}
    told |= {"message": said} if path == "/api/chat" else {"response": ""}
    return told | {"done": True, "done_reason": reason}
