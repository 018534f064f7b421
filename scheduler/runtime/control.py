"""The control socket: newline-delimited JSON, many requests on one connection.

A line that cannot be read, or asks for what does not exist, gets an error reply and closes nothing.
A connection that breaks takes its waiters with it; its leases are abandoned and watched.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import assert_never, cast

import msgspec

from scheduler.core.values import RequestId
from scheduler.protocol import (
    LINE_LIMIT,
    UNREADABLE_ID,
    Abandon,
    Acquire,
    Apply,
    Cancel,
    Counted,
    Detach,
    Devices,
    Drains,
    Ended,
    ErrorBody,
    Explain,
    Figures,
    Fit,
    Forgo,
    Heard,
    Keep,
    Load,
    Measured,
    Operation,
    Ping,
    Refused,
    Release,
    Reload,
    Reply,
    Seen,
    Shutdown,
    Snapshot,
    Stop,
    Stream,
    Streams,
    Subscribe,
    Tell,
    Try,
    Unload,
    Waiters,
)

from .line_splitter import LineSplitter
from .operations import Operations
from .refusals import request_unknown
from .reloads import ReadRegistry, Reloads
from .replies import Told, written
from .socket_file import socket_file
from .unreadable import id_of, unreadable
from .waiting import Run

logger = logging.getLogger(__name__)

UNREAD_LIMIT = 16 << 20
"""Bytes of replies that a peer may leave unread before its connection is cut."""
PAUSE_AT = 1 << 20
"""Bytes of unread replies at which no more of its requests are read."""

_decode = msgspec.json.Decoder(Operation).decode


def _unsaid(_ended: Ended | None) -> None:
    """The answer to who waits for none."""


class ControlServer:
    def __init__(self, operations: Operations, reload: ReadRegistry) -> None:
        self._operations = operations
        self._reload = reload
        self._connections: set[_Connection] = set()

    async def serve(self, socket: Path) -> None:
        """Until cancelled. The socket's file is made, 0600, and removed."""
        loop = asyncio.get_running_loop()
        with socket_file(socket):
            server = await loop.create_unix_server(self._connected, str(socket))
            os.chmod(socket, 0o600)  # noqa: PTH101 - one call on a local file
            try:
                await loop.create_future()
            finally:
                server.close()
                for connection in list(self._connections):
                    connection.end()

    def _connected(self) -> _Connection:
        return _Connection(self._operations, self._reload, self._connections)


class _Connection(asyncio.Protocol):
    """One peer. `_requests` maps its ids of waiters to ours, `_leases` ours back to its."""

    def __init__(
        self, operations: Operations, reload: ReadRegistry, connections: set[_Connection]
    ) -> None:
        self._operations = operations
        self._connections = connections
        self._splitter = LineSplitter(LINE_LIMIT)
        self._requests: dict[int, RequestId] = {}
        self._leases: dict[RequestId, int] = {}
        self._subscriptions: dict[int, Callable[[], None]] = {}
        self._reloads = Reloads(reload, self._refuse)
        self._unsent: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None

    # What the event loop calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=PAUSE_AT)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        before = self._splitter.dropped
        for line in self._splitter.feed(data):
            self._read(line)
        for _ in range(self._splitter.dropped - before):
            self._refuse(
                UNREADABLE_ID,
                Refused("invalid_request", f"a line must be shorter than {LINE_LIMIT} bytes"),
            )

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        self._reloads.cancel()
        for leave in self._subscriptions.values():
            leave()
        for request in self._requests.values():
            self._operations.leases.desert(request)
        if self._requests:
            logger.info("a connection with %d requests has broken", len(self._requests))

    def end(self) -> None:
        """Send what is still to be sent, then close."""
        self._write()
        if self._transport is not None:
            self._transport.close()

    # Lines ---------------------------------------------------------------------------------------

    def _read(self, line: bytes) -> None:
        try:
            operation = _decode(line)
        except (msgspec.DecodeError, RecursionError) as problem:
            if line.strip():
                self._refuse(id_of(line), unreadable(line, problem))
            return
        try:
            self._do(operation)
        except Refused as refusal:
            self._refuse(operation.id, refusal)

    def _do(self, operation: Operation) -> None:  # noqa: C901 - one row per operation
        done = partial(self._ok, operation.id)
        match operation:
            case Acquire() | Try():
                self._ask_for_lease(operation)
            case Cancel(target=target):
                if (request := self._requests.pop(target, None)) is not None:
                    self._leases.pop(request, None)
                    self._operations.leases.cancel(request)
                if (leave := self._subscriptions.pop(target, None)) is not None:
                    leave()
                done()
            case Release():
                self._release(operation)
            case Abandon() | Heard():
                self._hear_of_lease(operation)
                done()
            case Forgo(charge=charge):
                self._operations.forgo(charge, done)
            case Counted(id=id):
                self._operations.counted(operation, partial(self._told, id))
            case Tell() | Figures():
                self._operations.sums.take(operation, done, partial(self._told, operation.id))
            case Detach() | Stop() | Stream() | Streams() | Seen():
                self._converse(operation)
            case Load():
                self._load(operation)
            case Unload():
                self._operations.unload(operation, partial(self._unloaded, operation.id))
            case Reload(id=id):
                self._reloads.read(id, lambda revision: self._ok(id, {"revision": revision}))
            case Apply(id=id, preset=preset):
                # Read first: what was edited a moment ago is what shall count now.
                applied = partial(self._told, id)
                self._reloads.read(id, lambda _: self._operations.apply(preset, applied))
            case Keep():
                self._operations.keep(operation, partial(self._told, operation.id))
            case Measured():
                self._operations.measured(operation, partial(self._told, operation.id))
            case Snapshot(id=id):
                self._operations.snapshot(partial(self._told, id))
            case Devices(id=id):
                self._operations.devices(partial(self._told, id))
            case Fit(id=id):
                self._operations.fit(operation, partial(self._told, id))
            case Waiters(id=id):
                self._operations.waiters(operation, partial(self._told, id))
            case Explain(id=id):
                self._operations.explain(self._meant(operation), partial(self._told, id))
            case Subscribe(id=id):
                self._subscribe(id)
            case Ping(process=process):
                self._operations.ping(process, done)
            case Shutdown():
                self._operations.shut_down(done)
            case _:
                assert_never(operation)

    def _ask_for_lease(self, asked: Acquire | Try) -> None:
        id, answer = asked.id, partial(self._granted, asked)
        self._unused(id)
        if isinstance(asked, Try):
            self._requests[id] = self._operations.trials.begin(asked, answer)
            return
        drains = partial(self._drains, id) if asked.kind == "websocket" else None
        self._requests[id] = self._operations.acquire(asked, answer, drains)

    def _release(self, told: Release) -> None:
        request = self._ended_lease(told.lease)
        self._operations.leases.release(
            request,
            _unsaid if told.silent else partial(self._released, told.id),
            died=told.died,
            tokens=told.tokens,
            unread=told.unread,
            unanswered=told.unanswered,
            context=told.context,
            cached=told.cached,
        )

    def _hear_of_lease(self, told: Abandon | Heard) -> None:
        self._known_lease(told.lease)
        if isinstance(told, Heard):
            self._operations.leases.heard(RequestId(told.lease), told.failed)
        else:
            self._operations.leases.abandon(RequestId(told.lease))

    def _converse(self, operation: Detach | Stop | Stream | Streams | Seen) -> None:
        done, told = partial(self._ok, operation.id), partial(self._told, operation.id)
        conversing = self._operations.conversing
        match operation:
            case Detach(target=target):
                if (request := self._requests.get(target)) is not None:
                    conversing.detach(request)
                done()
            case Stop():
                conversing.stop(operation, done)
            case Stream():
                conversing.stream(operation, told)
            case Streams():
                conversing.streams(operation, told)
            case Seen():
                conversing.seen(operation)
                done()

    def _load(self, asked: Load) -> None:
        id, preset, allowed = asked.id, asked.preset, asked.allowed
        if asked.wait:
            self._unused(id)
            loaded = partial(self._loaded, id)
            self._requests[id] = self._operations.load(preset, loaded, allowed=allowed)
            return
        # Not tied to this connection: whoever asked may leave as soon as it is queued. Nor to its
        # table: an id that is not kept may be that of a lease.
        queued = partial(self._ok, id, {"queued": True})
        self._operations.load(preset, partial(self._tell_loaded, id), queued, allowed)

    def _subscribe(self, id: int) -> None:
        if id in self._subscriptions:
            raise Refused("invalid_request", f"the id {id} is in use on this connection")
        self._subscriptions[id] = lambda: None  # until the owner's turn

        def begun(leave: Callable[[], None]) -> None:
            if id in self._subscriptions and self._transport is not None:
                self._subscriptions[id] = leave
            else:
                leave()  # cancelled, or the connection broke, in the meantime

        self._operations.subscribe(partial(self._ok, id), begun)

    def _unused(self, id: int) -> None:
        if id in self._requests:
            raise Refused("invalid_request", f"the id {id} is in use on this connection")

    def _known_lease(self, lease: int) -> int:
        id = self._leases.get(RequestId(lease))
        if id is None:
            raise Refused("unknown_lease", f"this connection holds no lease {lease}")
        return id

    def _meant(self, asked: Explain) -> RequestId | str:
        if asked.target is None and asked.request:
            return asked.request
        if asked.target is None or asked.request:
            raise Refused("invalid_request", "name one request, by `request` or by `target`")
        request = self._requests.get(asked.target)
        if request is None:
            raise request_unknown()
        return request

    def _ended_lease(self, lease: int) -> RequestId:
        id = self._known_lease(lease)
        del self._leases[RequestId(lease)]
        return self._requests.pop(id)

    # Replies, in the owner's turn ----------------------------------------------------------------

    def _granted(self, asked: Acquire | Try, answer: Run | Refused) -> None:
        id = asked.id
        if isinstance(answer, Refused):
            self._requests.pop(id, None)
            self._refuse(id, answer)
            return
        request = self._requests.get(id)
        if request is None:
            return  # cancelled in this very moment: the lease ends by that
        self._leases[request] = id
        granted = self._operations.granted(request, answer, asked)
        self._ok(id, granted)

    def _drains(self, id: int, draining: bool) -> None:
        self._ok(id, Drains(draining))

    def _released(self, id: int, ended: Ended | None) -> None:
        self._ok(id, {} if ended is None else {"ended": ended})

    def _loaded(self, id: int, answer: Run | Refused) -> None:
        self._requests.pop(id, None)
        self._tell_loaded(id, answer)

    def _tell_loaded(self, id: int, answer: Run | Refused) -> None:
        if isinstance(answer, Refused):
            self._refuse(id, answer)
        else:
            self._ok(id, {"preset": answer.spec.preset, "instance": answer.instance})

    def _unloaded(self, id: int, answer: int | Refused) -> None:
        if isinstance(answer, Refused):
            self._refuse(id, answer)
        else:
            self._ok(id, {"instances": answer})

    def _told(self, id: int, answer: Told | Refused | None) -> None:
        if isinstance(answer, Refused):
            self._refuse(id, answer)
        else:
            self._ok(id, answer)

    def _ok(self, id: int, ok: object = None) -> None:
        self._send(Reply(id, ok={} if ok is None else ok))

    def _refuse(self, id: int, refusal: Refused) -> None:
        body = ErrorBody(refusal.code, refusal.message, refusal.retry_after_seconds, refusal.rate)
        self._send(Reply(id, error=body))

    def _send(self, reply: Reply) -> None:
        if not self._unsent:
            self._loop.call_soon(self._write)
        self._unsent.append(written(reply))

    def _write(self) -> None:
        """All the replies of one turn of the loop in one write: each costs a system call."""
        lines, self._unsent = self._unsent, []
        if not lines or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"\n".join([*lines, b""]))
        if self._transport.get_write_buffer_size() > UNREAD_LIMIT:
            logger.warning("a peer does not read its replies: its connection is cut")
            self._transport.abort()
