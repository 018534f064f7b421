"""The gateway as an ASGI application: who asks, for what, and who answers."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from proxy import listing
from proxy.addressing import (
    address_query,
    autoload_asked,
    form_type,
    names_a_model,
)
from proxy.answers import Send, send_refusal
from proxy.audit_notes import AuditNotes
from proxy.body import Body, Room, read_body
from proxy.callers import Caller
from proxy.carriage import Carriage, Request
from proxy.conf import ProxyConfig, proxy_config
from proxy.conversations import conversation_of
from proxy.downloads import Downloads
from proxy.endpoints import (
    APART,
    CONVERSING,
    LOOKING,
    MANAGING,
    METERED,
    OF_MODEL,
    Endpoint,
    Kind,
    dialect_of,
    find_endpoint,
    model_named,
)
from proxy.event_stream import stream_events
from proxy.events import ModelEvents
from proxy.forwarding import Carriers, Forwarding, Order, carriers_of, interruption
from proxy.handover import Handover, Outliving, handed_over
from proxy.headers import client_request_id, head_for_child, refuse_odd_headers
from proxy.key_ring import KeyRing
from proxy.log_context import comes_from
from proxy.meters import Meters
from proxy.metrics.front import Metrics
from proxy.model_changes import ModelChanges
from proxy.ollama.front import Ollama
from proxy.ollama.managing import ModelManagement
from proxy.ollama.relay import OllamaRelay
from proxy.orphans import Orphans
from proxy.own_answers import OwnAnswers
from proxy.parsing import Parsing
from proxy.permissions import refuse_without_scope
from proxy.playground.session_keys import SESSION
from proxy.queries import AWAY, database_away
from proxy.readiness import Readiness
from proxy.relay import AnswerCut, Reader, Relay
from proxy.remote.request import Asked
from proxy.sockets import Sockets
from proxy.standing import Standing
from proxy.stickiness import sticky_of
from proxy.streams import Streams
from proxy.tokens import hex_name
from proxy.underway import UnderWay
from proxy.usage.journal import Journal
from proxy.usage.open_records import OpenRecords
from proxy.usage.writer import UsageWriter
from proxy.watch import Cause, Interrupted, Receive, Watch
from scheduler.client import Conversation, SchedulerClient
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)


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
        usage: UsageWriter | None = None,
        notes: AuditNotes | None = None,
    ) -> None:
        self._config = config or proxy_config()
        self._keys = keys or KeyRing(self._config)
        self._scheduler = scheduler or SchedulerClient(
            self._config.control_socket, self._config.reconnect_wait_seconds
        )
        self._downloads = downloads or Downloads()
        self._metrics = Metrics(self._asked, self._config.telemetry)
        journal = Journal(self._config.usage_folder, self._config.usage_journal)
        self._usage = usage or UsageWriter(journal, noted=self._metrics.note)
        open_records = OpenRecords(self._config.usage_folder / "open")
        self._orphans = Orphans(open_records, self._usage.write, self._scheduler)
        self._meters = Meters(self._usage.write, open_records, self._config)
        self._changes = ModelChanges(notes or AuditNotes())
        self._models = listing.ModelList(self._downloads)
        self._events: ModelEvents | None = None
        self._carriers: Carriers | None = None
        self._under_way = UnderWay()
        self._standing = Standing(self._keys, self._under_way)
        self._management = ModelManagement(self._config, self._changes, self._under_way)
        self._outliving = Outliving()
        self._streams = Streams(self._config)
        self._parsing = Parsing()
        self._room = Room(self._config.body_memory, self._config.spool_limit)
        self._ollama = Ollama(
            self._config, self._parsing, self._room, self._models, self._changes.notes
        )
        readiness = Readiness(self._config, self._under_way, self._keys, self._asked, self._usage)
        self._own = OwnAnswers(
            self._config,
            self._models,
            self._changes,
            self._ollama,
            readiness,
            self._metrics,
            self._asked,
        )
        self._sockets = Sockets(
            self._config,
            self._keys,
            self._downloads,
            self._under_way,
            self._asked,
            self._heard,
            self._usage,
            open_records,
        )

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets(scope, receive, send)
            return
        headers, path = scope["headers"], scope["path"]
        request_id = client_request_id(headers) or f"req-{hex_name(12)}"
        request = Request(scope, receive, send, request_id, headers)
        try:
            refuse_odd_headers(request.headers)
            endpoint = find_endpoint(path, scope["method"])
            if path in OF_MODEL and names_a_model(scope["query_string"]):
                endpoint = OF_MODEL[path]
            if endpoint.public:
                caller = Caller("")
            else:
                caller = await self._keys.identify(request.headers, scope.get(SESSION))
                comes_from(caller.key, caller.team)
                refuse_without_scope(caller, endpoint.kind)
            if endpoint.kind not in APART:
                await self._own.answer(endpoint, caller, request)
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
            await self._tell_events(caller, request)
        elif endpoint.kind in MANAGING:
            await self._management(endpoint, caller, request)
        else:
            await self._forward(endpoint, caller, request)

    async def start(self) -> None:
        await self._started()

    async def close(self) -> None:
        """What abandoned answers still hold ends with the connection to the scheduler."""
        own = self._standing, self._keys, self._ollama, self._models, self._downloads
        for each in (*own, self._management, self._changes):
            await each.close()
        if self._events is not None:
            await self._events.close()
        await self._own.close()
        await self._outliving.close()
        await self._metrics.close()
        await self._orphans.close()
        if self._carriers is not None:
            carriers, self._carriers = self._carriers, None
            await carriers.close()
        await self._usage.close()

    async def drain(self, timeout_seconds: float) -> None:
        """Take no new work; let answers end for that long, cut the rest with an error; close."""
        await self._under_way.drain(timeout_seconds)
        await self.close()

    async def _started(self) -> Carriers:
        self._under_way.refuse_while_draining()
        if self._carriers is None:
            own = self._config, self._scheduler, self._keys, self._parsing, self._room
            self._carriers = carriers_of(*own)
            self._usage.start()
            self._standing.begin()
            await self._scheduler.start()
            self._orphans.start()
        return self._carriers

    async def _tell_events(self, caller: Caller, request: Request) -> None:
        """Raises AnswerCut to the server for a client that does not read."""
        task = asyncio.current_task()
        assert task is not None
        watch = Watch(task)
        watch.follow(request.receive, request.gone)
        watch.queued = True  # at a stop it ends at once
        watch.key = caller.key
        now = partial(self._keys.as_known, caller)
        send, told = request.send, request.id.encode()
        with self._under_way.one(watch):
            try:
                events = await self._heard()
                await stream_events(events, send, request.headers, told, watch, now)
            except Refused as refused:
                await send_refusal(send, refused, dialect_of(request.scope["path"]), "", told)

    async def _asked(self) -> SchedulerClient:
        return (await self._started()).scheduler

    async def _heard(self) -> ModelEvents:
        carriers = await self._started()
        if self._events is None:
            self._events = ModelEvents(
                carriers.scheduler, self._listed, self._models.names, self._downloads
            )
        return self._events

    async def _listed(self, caller: Caller) -> list[Any]:
        listed = await self._models.body((await self._started()).scheduler, caller)
        return list(listed["data"])

    async def _forward(self, endpoint: Endpoint, caller: Caller, request: Request) -> None:
        task = asyncio.current_task()
        assert task is not None
        watch = Watch(task)
        watch.key = caller.key
        reader = Reader(request.send, request.id, endpoint.dialect)
        made = OllamaRelay if endpoint.kind is Kind.OLLAMA else Relay
        meter = self._meters.of(endpoint, caller, request, watch.loop)
        relay = made(reader, self._config, watch, meter)
        carriage = Carriage(endpoint, caller, request, relay, watch, meter)
        self._under_way.enter(watch)
        try:
            await self._or_say_why(carriage, self._carry(carriage))
        finally:
            self._under_way.leave(watch)

    async def _or_say_why(self, carriage: Carriage, carrying: Awaitable[None]) -> None:
        request, relay = carriage.request, carriage.relay
        try:
            await carrying
        except Refused as refused:
            told = await self._downloads.instead_of(refused, carriage.model, carriage.caller)
            carriage.meter.failed(told)
            await relay.fail(told, carriage.model)
        except Interrupted as interrupted:
            carriage.meter.failed(interrupted)
            if interrupted.cause is Cause.SLOW_READER:
                relay.cut("the client does not read its answer")
            reason = interruption(interrupted, relay.config)
            if reason is not None:
                await relay.fail(reason, carriage.model)
        except AnswerCut:
            raise
        except asyncio.CancelledError as cancelled:
            carriage.meter.failed(cancelled)
            raise
        except Exception as error:
            carriage.meter.failed(error)
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
        watch.follow(request.receive, request.gone)
        if carriage.endpoint.kind in METERED:
            self._usage.refuse_if_full()
        query: bytes = request.scope["query_string"]
        if carriage.endpoint.kind in CONVERSING:
            scheduler = (await self._started()).scheduler
            await self._streams.answer(carriage, body, query, scheduler)
            return
        if carriage.endpoint.kind is Kind.OLLAMA:
            await self._ollama.carry(carriage, await self._started(), arrived)
            return
        form, path = form_type(request.headers), carriage.endpoint.path
        if form is not None and not carriage.endpoint.forms:
            raise Refused("invalid_request", f"{path} takes JSON, not a multipart form.")
        method = "GET" if carriage.in_query else "POST"  # of HEAD the server leaves the body out
        if carriage.in_query:
            carriage.model = address_query(query)
        else:
            carriage.model = await self._parsing.model_in(body, form)
        carriage.meter.asks_for(carriage.model)
        if form is None:
            carriage.meter.reads(body)
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
            meter=carriage.meter,
            sticky=sticky_of(request.headers, carriage.caller.team, body),
            kind="get" if carriage.endpoint.kind in LOOKING else "post",
            is_json=form is None and not carriage.in_query,
            form=form,
            conversation=await self._conversation(carriage, body),
        )
        if order.conversation is None:
            await Forwarding(order, carriers, carriage.relay, watch).run()
        else:
            await self._carry_apart(carriage, order, order.conversation, carriers)

    async def _conversation(self, carriage: Carriage, body: Body) -> Conversation | None:
        headers = carriage.request.headers
        id = await conversation_of(carriage.endpoint, headers, body, self._parsing)
        return Conversation(carriage.caller.owner, id) if id else None

    async def _carry_apart(
        self, carriage: Carriage, order: Order, conversation: Conversation, carriers: Carriers
    ) -> None:
        """In a task of its own, which goes on when the client of this one has gone."""
        config, handover = self._config, Handover()

        async def carry() -> None:
            carried = msgspec.structs.replace(order, meter=apart.meter)
            forwarding = Forwarding(carried, carriers, apart.relay, apart.watch)
            try:
                await self._or_say_why(apart, forwarding.run())
            finally:
                await handover.put(None)
                if apart.watch.unattended:
                    self._under_way.leave(apart.watch)

        task = self._outliving.begin(carry, "conversation")
        watch = Watch(task)
        watch.key = carriage.caller.key
        reader = Reader(handover.put, order.id, carriage.endpoint.dialect)
        meter = carriage.meter.hand_over()
        relay = Relay(reader, handed_over(config), watch, meter)
        apart = replace(carriage, relay=relay, watch=watch, meter=meter)
        carriage.body = None  # it is the task's to close
        self._under_way.enter(watch)
        self._under_way.leave(carriage.watch)
        try:
            seconds = config.slow_reader_timeout_seconds
            await handover.pass_on(carriage.request.send, carriage.watch, seconds)
        except BaseException:
            conversation.detach()
            watch.unattended = True
            if conversation.stream == "":
                watch.interrupt(Cause.CLIENT_GONE)  # an engine that keeps no streams
            if task.done():
                self._under_way.leave(watch)
            raise
        try:
            await asyncio.wait({task})
        finally:
            self._under_way.leave(watch)
        task.result()
        if conversation.stream:
            carriers.scheduler.seen(conversation.owner, conversation.id, conversation.stream)

    def _unexpected(self, request: Request) -> Refused:
        """Call it where the exception is being handled."""
        error = sys.exception()
        if isinstance(error, AWAY):
            return database_away(error)
        logger.exception(
            "Request %s failed: %s %s", request.id, request.scope["method"], request.scope["path"]
        )
        return Refused("internal_error", f"Something broke here; the log says more: {request.id}.")
