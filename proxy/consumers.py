"""The gateway as an ASGI application: who asks, for what, and who answers."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from functools import partial
from typing import Any

from proxy import listing
from proxy.abandoned import AbandonedAnswers
from proxy.addressing import (
    address,
    address_form,
    address_query,
    autoload_asked,
    form_type,
    names_a_model,
)
from proxy.answers import Send, send_json, send_refusal
from proxy.body import Body, Room, read_body
from proxy.conf import ProxyConfig, proxy_config
from proxy.downloads import Downloads
from proxy.endpoints import (
    CARRIED,
    PROPS_OF_MODEL,
    Endpoint,
    Kind,
    dialect_of,
    find_endpoint,
    model_named,
)
from proxy.event_stream import stream_events
from proxy.events import ModelEvents
from proxy.filtering import Filtering
from proxy.forwarding import Carriers, Forwarding, Order, interruption
from proxy.headers import client_request_id, head_for_child, refuse_odd_headers
from proxy.keys import Caller, KeyRing
from proxy.model_changes import ModelChanges
from proxy.model_loading import ModelLoading
from proxy.parsing import Parsing
from proxy.relay import AnswerCut, Reader, Relay
from proxy.reloading import Reload, reload_asked
from proxy.remote.client import RemoteClient
from proxy.remote.request import Asked, via_of
from proxy.sockets import Sockets
from proxy.stickiness import sticky_of
from proxy.underway import UnderWay
from proxy.watch import CLIENT_GONE, Cause, Interrupted, Receive, Watch
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

READY_SECONDS = 2.0


@dataclass(slots=True)
class Request:
    """One HTTP request as the server hands it over, with its id."""

    scope: dict[str, Any]
    receive: Receive
    send: Send
    id: str
    headers: list[tuple[bytes, bytes]]


class GatewayApp:
    """A plain ASGI callable for HTTP and WebSocket; one per process and event loop.

    It starts with its first request, if nobody has started it before; `drain` ends it.
    """

    def __init__(
        self,
        config: ProxyConfig | None = None,
        *,
        scheduler: SchedulerClient | None = None,
        keys: KeyRing | None = None,
        downloads: Downloads | None = None,
    ) -> None:
        self._config = config or proxy_config()
        self._keys = keys or KeyRing(self._config)
        self._scheduler = scheduler or SchedulerClient(
            self._config.control_socket, self._config.reconnect_wait_seconds
        )
        self._downloads = downloads or Downloads()
        self._changes = ModelChanges()
        self._loading = ModelLoading(self._config, self._changes.asker_of)
        self._models = listing.ModelList(self._downloads)
        self._reload = Reload()
        self._events: ModelEvents | None = None
        self._carriers: Carriers | None = None
        self._under_way = UnderWay()
        self._parsing = Parsing()
        self._room = Room(self._config.body_memory, self._config.spool_limit)
        self._sockets = Sockets(
            self._config, self._keys, self._downloads, self._under_way, self._asked, self._heard
        )

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets(scope, receive, send)
            return
        headers = scope["headers"]
        request_id = client_request_id(headers) or f"req-{secrets.token_hex(12)}"
        request = Request(scope, receive, send, request_id, headers)
        path = scope["path"]
        try:
            refuse_odd_headers(request.headers)
            endpoint = find_endpoint(path, scope["method"])
            if endpoint.kind is Kind.PROPS and names_a_model(scope["query_string"]):
                endpoint = PROPS_OF_MODEL
            if endpoint.public:
                caller = Caller("")
            else:
                caller = await self._keys.identify(request.headers)
            if endpoint.kind not in {*CARRIED, Kind.EVENTS}:
                await self._answer(endpoint, caller, request)
                return
        except Refused as refused:
            model, told = model_named(path), request_id.encode()
            await send_refusal(send, refused, dialect_of(path), model, told)
            return
        except Exception:
            broken = self._unexpected(request)
            await send_refusal(send, broken, dialect_of(path), "", request_id.encode())
            return
        if endpoint.kind is Kind.EVENTS:
            await self._tell_events(request)
        else:
            await self._forward(endpoint, caller, request)

    async def start(self) -> None:
        await self._started()

    async def close(self) -> None:
        """What abandoned answers still hold ends with the connection to the scheduler."""
        await self._keys.close()
        await self._models.close()
        await self._downloads.close()
        await self._changes.close()
        if self._events is not None:
            await self._events.close()
        await self._reload.close()
        if self._carriers is not None:
            carriers, self._carriers = self._carriers, None
            await carriers.abandoned.close()
            await carriers.remotes.close()
            await carriers.scheduler.close()

    async def drain(self, timeout_seconds: float) -> None:
        """Take no new work; let answers end for that long, cut the rest with an error; close."""
        await self._under_way.drain(timeout_seconds)
        await self.close()

    async def _started(self) -> Carriers:
        if self._under_way.draining.is_set():
            raise Refused("shutting_down", "The gateway is shutting down.", retry_after_seconds=5.0)
        if self._carriers is None:
            self._carriers = Carriers(
                self._config,
                self._scheduler,
                AbandonedAnswers(),
                Filtering(self._parsing, self._room, self._config.temp_folder),
                RemoteClient(
                    via=via_of(self._config.secret_key), proxy=self._config.upstream_proxy
                ),
            )
            await self._scheduler.start()
        return self._carriers

    async def _answer(self, endpoint: Endpoint, caller: Caller, request: Request) -> None:
        """What the gateway answers by itself."""
        status = 200
        match endpoint.kind:
            case Kind.HEALTH:
                payload: object = {"status": "ok"}
            case Kind.READY:
                status, payload = await self._ready()
            case Kind.FETCH:
                seconds = self._config.body_timeout_seconds
                payload = await self._changes.fetch(request.headers, request.receive, seconds)
            case Kind.REMOVE:
                query: bytes = request.scope["query_string"]
                payload = await self._changes.remove(request.headers, query)
            case Kind.LOAD:
                scheduler = (await self._started()).scheduler
                payload = await self._loading.load(scheduler, request.receive)
            case Kind.UNLOAD:
                scheduler = (await self._started()).scheduler
                payload = await self._loading.unload(scheduler, request.headers, request.receive)
            case Kind.PROPS:
                payload = listing.props(self._config)
            case Kind.MODEL:
                scheduler = (await self._started()).scheduler
                name = model_named(endpoint.path)
                payload = await self._models.one(scheduler, name, caller.own_names(name))
            case _:
                if reload_asked(request.scope["query_string"]):
                    await self._reload.done()
                payload = await self._models.body((await self._started()).scheduler)
        headers = [(b"cache-control", b"no-store")]
        await send_json(request.send, status, payload, request.id.encode(), headers)

    async def _tell_events(self, request: Request) -> None:
        """Raises AnswerCut to the server for a client that does not read."""
        task = asyncio.current_task()
        assert task is not None
        watch = Watch(task)
        watch.follow(request.receive, request.scope.get("extensions", {}).get(CLIENT_GONE))
        watch.queued = True  # at a stop it ends at once
        send, told = request.send, request.id.encode()
        with self._under_way.one(watch):
            try:
                await stream_events(await self._heard(), send, request.headers, told, watch)
            except Refused as refused:
                await send_refusal(send, refused, dialect_of(request.scope["path"]), "", told)

    async def _asked(self) -> SchedulerClient:
        return (await self._started()).scheduler

    async def _heard(self) -> ModelEvents:
        carriers = await self._started()
        if self._events is None:
            self._events = ModelEvents(carriers.scheduler, self._listed, self._downloads)
        return self._events

    async def _listed(self) -> list[Any]:
        listed = await self._models.body((await self._started()).scheduler)
        return list(listed["data"])

    async def _ready(self) -> tuple[int, dict[str, Any]]:
        if self._under_way.draining.is_set():
            return 503, {"status": "shutting down"}
        carriers = await self._started()
        try:
            async with asyncio.timeout(READY_SECONDS):
                await carriers.scheduler.ping()
        except (Refused, TimeoutError):
            return 503, {"status": "the scheduler does not answer"}
        return 200, {"status": "ok"}

    async def _forward(self, endpoint: Endpoint, caller: Caller, request: Request) -> None:
        task = asyncio.current_task()
        assert task is not None
        watch = Watch(task)
        reader = Reader(request.send, request.id, endpoint.dialect)
        relay = Relay(reader, self._config, watch)
        carriage = Carriage(endpoint, caller, request, relay, watch)
        with self._under_way.one(watch):
            await self._carry_or_say_why(carriage)

    async def _carry_or_say_why(self, carriage: Carriage) -> None:
        request, relay = carriage.request, carriage.relay
        try:
            await self._carry(carriage)
        except Refused as refused:
            told = await self._downloads.instead_of(refused, carriage.model)
            await relay.fail(told, carriage.model)
        except Interrupted as interrupted:
            if interrupted.cause is Cause.SLOW_READER:
                relay.cut("the client does not read its answer")
            reason = interruption(interrupted, relay.config)
            if reason is not None:
                await relay.fail(reason, carriage.model)
        except AnswerCut:
            raise
        except Exception:
            await relay.fail(self._unexpected(request), carriage.model)
        finally:
            carriage.watch.close()
            if carriage.body is not None:
                carriage.body.close()

    async def _carry(self, carriage: Carriage) -> None:
        request, watch, config = carriage.request, carriage.watch, self._config
        arrived = watch.loop.time()
        body = carriage.body = await read_body(
            request.receive, request.headers, config, watch, self._room
        )
        watch.follow(request.receive, request.scope.get("extensions", {}).get(CLIENT_GONE))
        query: bytes = request.scope["query_string"]
        form = form_type(request.headers) if carriage.endpoint.forms else None
        method, path = request.scope["method"], carriage.endpoint.path
        if carriage.in_query:
            carriage.model = address_query(query)
        else:
            carriage.model = await self._addressed(body, form)
        carriers = await self._started()
        order = Order(
            id=request.id,
            head=head_for_child(method, path, query, request.headers, request.id),
            body=body,
            model=carriage.model,
            caller=carriage.caller,
            autoload=autoload_asked(query, default=config.models_autoload),
            arrived=arrived,
            asked=Asked(method, path, query, request.headers),
            sticky=sticky_of(request.headers, carriage.caller.team, body),
            kind="get" if carriage.endpoint.kind is Kind.LOOK else "post",
            is_json=form is None and not carriage.in_query,
            form=form,
        )
        await Forwarding(order, carriers, carriage.relay, watch).run()

    async def _addressed(self, body: Body, form: bytes | None) -> str:
        """`form` is the Content-Type of a multipart form, or None for JSON."""
        return await self._parsing.run(body, partial(_address, body, form))

    def _unexpected(self, request: Request) -> Refused:
        """Call it where the exception is being handled."""
        logger.exception(
            "Request %s failed: %s %s", request.id, request.scope["method"], request.scope["path"]
        )
        return Refused("internal_error", f"Something broke here; the log says more: {request.id}.")


def _address(body: Body, form: bytes | None) -> str:
    with body.view() as view:
        return address(view) if form is None else address_form(view, form)


@dataclass(slots=True)
class Carriage:
    """A request on its way, as far as it has come."""

    endpoint: Endpoint
    caller: Caller
    request: Request
    relay: Relay
    watch: Watch
    body: Body | None = None
    model: str = ""

    @property
    def in_query(self) -> bool:
        """Where its model is named."""
        return bool(self.request.scope["method"] == "GET")
