"""The gateway's WebSockets: a child's, carried, and what happens to models."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from models_registry.allowing import Allowed
from proxy.addressing import MOST_FIELDS, address_query, autoload_asked
from proxy.answers import Send
from proxy.attempts import Attempts
from proxy.callers import ANYBODY
from proxy.child_socket import ChildRefused, ChildSocket, open_to
from proxy.client_socket import ClientClosed, ClientSocket
from proxy.conf import ProxyConfig
from proxy.downloads import Downloads
from proxy.endpoints import SOCKETS, Kind, dialect_of
from proxy.event_words import Part
from proxy.events import ModelEvents
from proxy.forwarding import interruption
from proxy.headers import (
    client_request_id,
    refuse_odd_headers,
    socket_headers_for_child,
    socket_query_for_child,
    to_client,
    trace_in,
)
from proxy.key_ring import KeyRing
from proxy.keys import has_key
from proxy.log_context import comes_from
from proxy.permissions import refuse_without_scope
from proxy.relay import AnswerCut
from proxy.socket_relay import STOPPING, SocketRelay
from proxy.standing import leased_as_allowed
from proxy.underway import UnderWay
from proxy.upstream import UpstreamFailed
from proxy.usage.meter import Asking, Meter
from proxy.usage.open_records import OpenRecords
from proxy.usage.writer import UsageWriter
from proxy.watch import Cause, Interrupted, Receive, Watch
from scheduler.charging import Charge
from scheduler.client import Lease, SchedulerClient
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

REALTIME = "realtime"
"""The sub-protocol that OpenAI's clients offer in a browser, and want to see taken."""


class Sockets:
    """A plain ASGI callable for WebSocket."""

    def __init__(
        self,
        config: ProxyConfig,
        keys: KeyRing,
        downloads: Downloads,
        under_way: UnderWay,
        scheduler: Callable[[], Awaitable[SchedulerClient]],
        events: Callable[[], Awaitable[ModelEvents]],
        usage: UsageWriter,
        open_records: OpenRecords,
    ) -> None:
        """`scheduler` and `events` raise Refused when the gateway takes nothing new."""
        self._config = config
        self._keys = keys
        self._downloads = downloads
        self._under_way = under_way
        self._scheduler = scheduler
        self._events = events
        self._usage = usage
        self._open_records = open_records
        self._of_team: Counter[str] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request_id = client_request_id(scope["headers"]) or f"req-{secrets.token_hex(12)}"
        client = ClientSocket(scope, receive, send, request_id)
        task = asyncio.current_task()
        assert task is not None
        watch = Watch(task)
        await client.opening()
        with self._under_way.one(watch), suppress(ClientClosed):  # nobody is left to be told
            try:
                await self._or_say_why(client, watch)
            finally:
                await client.unfollow()

    async def _or_say_why(self, client: ClientSocket, watch: Watch) -> None:
        """Raises ClientClosed, and AnswerCut for who does not read."""
        try:
            await self._serve(client, watch)
        except Refused as refused:
            await client.refuse(refused, dialect_of(client.path))
        except ChildRefused as answer:
            told = to_client(answer.headers, client.request_id.encode(), stream=False)
            await client.answer(answer.status, told, answer.body)
        except Interrupted as interrupted:
            await self._interrupted(client, interrupted)
        except (ClientClosed, AnswerCut):
            raise
        except Exception:
            logger.exception("WebSocket %s failed: %s", client.request_id, client.path)
            words = f"Something broke here; the log says more: {client.request_id}."
            await client.refuse(Refused("internal_error", words), dialect_of(client.path))

    async def _serve(self, client: ClientSocket, watch: Watch) -> None:
        refuse_odd_headers(client.headers)
        match SOCKETS.get(client.path):
            case None:
                raise Refused("not_found", f"There is no WebSocket {client.path} on this gateway.")
            case Kind.EVENTS:
                await self._tell_events(client, watch)
            case _:
                await self._carry(client, watch)

    async def _interrupted(self, client: ClientSocket, interrupted: Interrupted) -> None:
        """Before a child's was accepted, or of one that listens."""
        if client.spoke_too_soon:
            early = "A message came before the WebSocket was accepted: wait for that."
            await client.refuse(Refused("invalid_request", early), dialect_of(client.path))
        elif interrupted.cause is Cause.SLOW_READER:
            raise AnswerCut("a reader of events does not read") from None
        elif (why := interruption(interrupted, self._config)) is not None:
            await client.refuse(why, dialect_of(client.path))

    # A child's ---------------------------------------------------------------------------------

    async def _carry(self, client: ClientSocket, watch: Watch) -> None:
        arrived = watch.loop.time()
        caller = await self._keys.identify(client.identifying_headers)
        comes_from(caller.key, caller.team)
        refuse_without_scope(caller, Kind.FORWARD)
        watch.key, watch.listens = caller.key, True
        agent = dict(client.headers).get(b"user-agent", b"")
        trace = trace_in(client.headers) if self._config.trust_trace_context else ""
        asking = Asking(
            client.request_id, client.path, dialect_of(client.path), caller, agent, trace
        )
        meter = Meter(asking, self._usage.write, watch.loop, open_records=self._open_records)
        try:
            with self._one_more(caller.team):
                await self._metered(client, meter, arrived, watch)
        except ChildRefused as answer:
            meter.declined(answer.status)
            raise
        except ClientClosed:
            meter.failed(Interrupted(Cause.CLIENT_GONE))
            raise
        except BaseException as left:
            meter.failed(left)
            raise

    async def _metered(
        self, client: ClientSocket, meter: Meter, arrived: float, watch: Watch
    ) -> None:
        self._usage.refuse_if_full()
        model = address_query(client.query)
        meter.asks_for(model)
        client.follow(watch)
        try:
            lease, child = await self._opened(client, meter, arrived, watch)
        except Refused as refused:
            raise await self._downloads.instead_of(refused, model, meter.asking.caller) from refused
        try:
            await client.unfollow()
            with watch:
                await client.accept(_taken(client, child))
        except BaseException:
            await lease.release(read=0, cached=0, answered=0)
            await child.close(STOPPING)
            raise
        meter.opens_socket()
        relay = SocketRelay(client, child, lease, self._config, self._under_way.draining, meter)
        await relay.run(watch)

    async def _opened(
        self, client: ClientSocket, meter: Meter, arrived: float, watch: Watch
    ) -> tuple[Lease, ChildSocket]:
        """Once again if the child died first. Raises Refused, ChildRefused, Interrupted."""
        attempts = Attempts(meter.model)
        while True:
            lease = await self._leased(client, meter, arrived, watch)
            config = self._config.within(lease.limits)
            try:
                refuse_remote(lease)
                with watch:
                    watch.limit(config.first_byte_timeout_seconds, Cause.FIRST_BYTE)
                    child = await open_to(
                        lease.address,
                        client.path + socket_query_for_child(client.query, lease.model),
                        socket_headers_for_child(client.headers, client.request_id),
                        client.subprotocols,
                        connect_seconds=config.connect_timeout_seconds,
                        max_message=self._config.websocket_message,
                    )
                watch.no_limit()
                return lease, child
            except UpstreamFailed:
                watch.no_limit()
                await attempts.judge(lease)
                meter.failed_try("scheduler_unavailable" if lease.lost.is_set() else "model_died")
            except Interrupted as interrupted:
                await lease.release(read=0, cached=0, answered=0)
                raise interruption(interrupted, config) or interrupted from None
            except BaseException:
                await lease.release(read=0, cached=0, answered=0)
                raise

    async def _leased(
        self, client: ClientSocket, meter: Meter, arrived: float, watch: Watch
    ) -> Lease:
        caller = meter.asking.caller
        ask = partial(self._leased_among, client, meter, arrived, watch)
        return await leased_as_allowed(caller, partial(self._keys.as_known, caller), ask)

    async def _leased_among(
        self, client: ClientSocket, meter: Meter, arrived: float, watch: Watch, allowed: Allowed
    ) -> Lease:
        scheduler = await self._scheduler()
        caller = meter.asking.caller
        watch.queued = True
        meter.waits()
        try:
            with watch:
                lease = await scheduler.acquire(
                    meter.model,
                    kind="websocket",
                    tenant=caller.team,
                    age=watch.loop.time() - arrived,
                    autoload=autoload_asked(client.query, default=self._config.models_autoload),
                    weight=caller.policy.weight,
                    priority=caller.policy.priority,
                    request=client.request_id,
                    own=caller.own_names(meter.model),
                    charge=Charge(caller.limits, meter.id),
                    allowed=allowed,
                )
        finally:
            watch.queued = False
        meter.granted(lease)
        return lease

    # What happens to models --------------------------------------------------------------------

    async def _tell_events(self, client: ClientSocket, watch: Watch) -> None:
        caller = ANYBODY
        if has_key(client.identifying_headers) or await client.person() is None:
            caller = await self._keys.identify(client.identifying_headers)
            comes_from(caller.key, caller.team)
            refuse_without_scope(caller, Kind.EVENTS)
        else:
            watch.session = client.person
        watch.queued = True  # at a stop it ends at once
        watch.key, watch.listens = caller.key, True
        asked = _asked_of_events(client.query)
        listener = _EventSocket(client, hears_activity="activity" in asked)
        client.follow(watch, listens=True)
        events = await self._events()
        now = partial(self._keys.as_known, caller)
        with self._one_more(caller.team):
            await events.tell(listener, asked.get("last_event_id", ""), watch, now)

    @contextmanager
    def _one_more(self, team: str) -> Iterator[None]:
        """Raises Refused: no team takes what all share. One of the admin's pages is no team's."""
        if team and self._of_team[team] >= self._config.websockets_of_team:
            raise Refused(
                "too_many_connections",
                "your team has half of all WebSockets open: CORRAL_WEBSOCKETS sets the limit",
                retry_after_seconds=1.0,
            )
        self._of_team[team] += 1
        try:
            yield
        finally:
            self._of_team[team] -= 1


class _EventSocket:
    """A listener (proxy.events). That nothing happens needs no words: the server pings."""

    def __init__(self, client: ClientSocket, *, hears_activity: bool) -> None:
        self._client = client
        self.hears_activity = hears_activity

    async def begin(self) -> None:
        await self._client.accept()

    async def tell(self, part: Part) -> None:
        for message in part.messages:
            await self._client.send(message)


def refuse_remote(lease: Lease) -> None:
    """Raises Refused."""
    if lease.remote is not None:
        raise Refused(
            "not_supported",
            f"'{lease.preset}' runs on a remote server, to which no WebSocket is carried.",
        )


def _taken(client: ClientSocket, child: ChildSocket) -> str | None:
    """The sub-protocol: the child's choice. A browser gives up where it offered some and none is
    taken."""
    if child.subprotocol is None and REALTIME in client.subprotocols:
        return REALTIME
    return child.subprotocol


def _asked_of_events(query: bytes) -> dict[str, str]:
    """`last_event_id`, which may be one that nobody has given out, and `activity`."""
    try:
        return dict(parse_qsl(query.decode("ascii"), max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise Refused("invalid_request", f"The query cannot be read: {error}.") from error
