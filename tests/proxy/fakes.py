"""Stand-ins for the two sides that the gateway joins: the scheduler, and a child on its socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models_registry.allowing import Allowed
from proxy.audit_notes import by_caller
from proxy.callers import Caller
from proxy.carriage import Request
from proxy.usage.record import Record
from scheduler.charging import NO_CHARGE, Charge
from scheduler.client import ConnectionLost, Conversation
from scheduler.protocol import (
    NO_OWN_NAMES,
    DevicesState,
    DeviceState,
    Ended,
    Filters,
    Happened,
    OwnNames,
    Rate,
    Refused,
    Remote,
    SnapshotState,
    StreamState,
    TimeLimits,
)

CRASH = Ended(by_itself=True, reason="crashed", signal=9, words="GGML_ASSERT failed")
STOPPED = Ended(by_itself=False, reason="evicted", exit_code=0)


class FakeLease:
    """Keeps account of how it ended."""

    def __init__(self, scheduler: FakeScheduler, number: int, preset: str, address: str) -> None:
        self.lease = number
        self.preset = preset
        self.instance = number
        self.address = address
        self.filters = scheduler.filters
        self.remote = scheduler.remotes[min(number, len(scheduler.remotes) - 1)]
        self.model = scheduler.model
        self.heard_of: list[str] = []
        self.limits = scheduler.limits
        self.lost = asyncio.Event()
        self.draining = asyncio.Event()
        self.released = False
        self.abandoned = False
        self.unread = False
        self.stream = ""
        self.loading = 0.0
        self.tells_tokens = scheduler.tells_tokens
        self.rate = scheduler.rate
        self.unanswered = False
        self.forgone = False
        self.tokens: tuple[int | None, ...] = (None, None, None)
        self._scheduler = scheduler

    async def release(
        self,
        *,
        died: bool = False,
        read: int | None = None,
        cached: int | None = None,
        answered: int | None = None,
        unread: bool = False,
        unanswered: bool = False,
    ) -> Ended | None:
        if self.released:
            return None
        self.released = True
        self.unanswered = unanswered
        self.tokens = (read, cached, answered)
        self.unread = unread
        self._scheduler.changed.set()
        if died:
            if self._scheduler.loses_leases:
                self.lost.set()
                return None
            return self._scheduler.endings.pop(0) if self._scheduler.endings else None
        return None

    def forgo(self) -> None:
        self.forgone = True

    def heard(self, failed: str = "") -> None:
        self.heard_of.append(failed)

    def keep(self, tenant: str, seconds: float) -> None:
        self._scheduler.wishes.append((self.preset, tenant, seconds))

    def abandon(self) -> None:
        self.abandoned = True
        self._scheduler.changed.set()


@dataclass
class Asked:
    preset: str
    tenant: str
    age: float
    autoload: bool
    weight: float
    priority: str
    request: str
    sticky: str = ""
    kind: str = "post"
    own: OwnNames = NO_OWN_NAMES
    charge: Charge = NO_CHARGE
    allowed: Allowed = ()


@dataclass
class FakeScheduler:
    """Grants at once, unless `open` is cleared. `endings` are told one after the other to those
    who say that their child died, `passing` to those who ask first."""

    addresses: list[str]
    endings: list[Ended | None] = field(default_factory=list)
    refusal: Refused | None = None
    passing: list[Refused] = field(default_factory=list)
    loses_leases: bool = False
    away: bool = False
    filters: Filters | None = None
    model: str = ""
    tells_tokens: bool = True
    remotes: list[Remote | None] = field(default_factory=lambda: [None])
    limits: TimeLimits | None = None
    rate: Rate | None = None
    live: SnapshotState | None = None
    machine: list[DeviceState] = field(default_factory=list)
    leases: list[FakeLease] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    waiting: int = 0
    keeps_streams: bool = True
    late_refusal: Refused | None = None
    conversations: list[Conversation] = field(default_factory=list)
    stopped: list[tuple[str, str]] = field(default_factory=list)
    states: dict[tuple[str, str], StreamState] = field(default_factory=dict)
    was_seen: list[tuple[str, str, str]] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)
    wishes: list[tuple[str, str, float]] = field(default_factory=list)
    life: str = "one"
    number: int = 0
    subscriptions: int = 0

    def __post_init__(self) -> None:
        self.listeners: list[asyncio.Queue[Happened | None]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.changed = asyncio.Event()
        self.closed = False

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True

    async def ping(self) -> None:
        self._answer()

    async def snapshot(self) -> SnapshotState:
        self._answer()
        return self.live or SnapshotState(1, 1, 4, False, [], [], [])

    async def devices(self) -> DevicesState:
        self._answer()
        return DevicesState(self.machine)

    async def load(self, preset: str, *, allowed: Allowed = ()) -> dict[str, Any]:
        self._answer()
        if self.refusal is not None:
            raise self.refusal
        self.loads.append(preset)
        return {"preset": preset, "instance": 1} if preset in self.loaded else {"queued": True}

    async def unload(self, preset: str, *, allowed: Allowed = ()) -> dict[str, Any]:
        self._answer()
        return {"instances": int(preset in self.loaded)}

    async def keep(
        self,
        preset: str,
        tenant: str,
        seconds: float,
        own: OwnNames = NO_OWN_NAMES,
        allowed: Allowed = (),
    ) -> None:
        self._answer()
        if self.refusal is not None:
            raise self.refusal
        self.wishes.append((preset, tenant, seconds))

    async def happenings(self) -> AsyncIterator[Happened]:
        self.subscriptions += 1
        told: asyncio.Queue[Happened | None] = asyncio.Queue()
        self.listeners.append(told)
        yield Happened(self.life, self.number)
        while (happened := await told.get()) is not None:
            yield happened
        raise ConnectionLost

    def happen(self, preset: str, **fields: Any) -> None:
        self.number += 1
        for told in self.listeners:
            told.put_nowait(Happened(self.life, self.number, preset=preset, **fields))

    def be_active(self) -> None:
        for told in self.listeners:
            told.put_nowait(Happened(self.life, self.number, activity=True))

    def break_off(self, life: str) -> None:
        """As if another scheduler stood there from now on."""
        self.life, self.number = life, 0
        for told in self.listeners:
            told.put_nowait(None)
        self.listeners.clear()

    async def acquire(
        self,
        preset: str,
        *,
        tenant: str = "",
        kind: str = "post",
        age: float = 0.0,
        autoload: bool = True,
        weight: float = 1.0,
        priority: str = "normal",
        request: str = "",
        sticky: str = "",
        own: OwnNames = NO_OWN_NAMES,
        conversation: Conversation | None = None,
        charge: Charge = NO_CHARGE,
        allowed: Allowed = (),
    ) -> FakeLease:
        if not preset and not own.default:
            raise Refused("model_missing", "no model, and no default")
        how = (age, autoload, weight, priority, request, sticky, kind, own, charge, allowed)
        self.asked.append(Asked(preset, tenant, *how))
        self._answer()
        if self.refusal is not None:
            raise self.refusal
        if self.passing:
            raise self.passing.pop(0)
        self.waiting += 1
        if conversation is not None:
            self.conversations.append(conversation)
        try:
            await self.open.wait()
            if self.late_refusal is not None:
                raise self.late_refusal
        finally:
            self.waiting -= 1
        number = len(self.leases)
        address = self.addresses[min(number, len(self.addresses) - 1)]
        lease = FakeLease(self, number, preset, address)
        if conversation is not None:
            lease.stream = conversation.stream = f"key-{number}" if self.keeps_streams else ""
        self.leases.append(lease)
        return lease

    async def stop(self, owner: str, conversation: str) -> None:
        self._answer()
        self.stopped.append((owner, conversation))

    async def stream(self, owner: str, conversation: str) -> StreamState:
        self._answer()
        state = self.states.get((owner, conversation))
        if state is None:
            raise Refused("conversation_lost", "there is none")
        return state

    async def streams(self, owner: str, conversations: list[str]) -> list[StreamState]:
        self._answer()
        asked = [(owner, id) for id in conversations]
        return [self.states[name] for name in asked if name in self.states]

    def seen(self, owner: str, conversation: str, stream: str) -> None:
        self.was_seen.append((owner, conversation, stream))

    @property
    def held(self) -> list[FakeLease]:
        return [lease for lease in self.leases if not lease.released]

    async def until_all_released(self) -> None:
        async with asyncio.timeout(30):
            while self.held:
                self.changed.clear()
                await self.changed.wait()

    def _answer(self) -> None:
        if self.away:
            raise Refused("scheduler_unavailable", "away", retry_after_seconds=5.0)


class KeptUsage:
    """What is recorded, and nothing written."""

    waiting_bytes = 0

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.refusal: Refused | None = None

    def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def refuse_if_full(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def write(self, record: Record) -> None:
        self.records.append(record)


class FakeNotes:
    """What would be in the audit trail; no database is asked."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str, str, str]] = []

    async def note(self, action: str, model: str, caller: Caller, request: Request) -> None:
        found = by_caller(caller, request)()
        self.noted.append((action, model, str(found.door), found.actor.name))

    async def close(self) -> None:
        pass


class NoDownloads:
    """Nothing is being fetched, and no database is asked."""

    async def entries(self) -> dict[str, Any]:
        return {}

    async def instead_of(self, refused: Refused, model: str, caller: object) -> Refused:
        return refused

    async def close(self) -> None:
        pass


@dataclass
class Received:
    """A request as the child read it."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)


class Connection:
    """The child's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def begin(self, kind: str, *headers: str, status: str = "200 OK") -> None:
        """A chunked answer, as llama-server's streams are."""
        head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Transfer-Encoding: chunked"]
        self._writer.write("\r\n".join([*head, *headers, "", ""]).encode())
        await self._writer.drain()

    async def say(self, part: bytes) -> None:
        self._writer.write(b"%x\r\n%s\r\n" % (len(part), part))
        await self._writer.drain()

    async def finish(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def answer(
        self, body: bytes, *headers: str, status: str = "200 OK", kind: str = "application/json"
    ) -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        self._writer.write("\r\n".join([*head, *headers, "", ""]).encode() + body)
        await self._writer.drain()

    async def begin_whole(self, length: int) -> None:
        """An answer whose length is stated, of which nothing has come yet."""
        head = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {length}"]
        await self.raw("\r\n".join([*head, "", ""]).encode())

    async def raw(self, part: bytes) -> None:
        self._writer.write(part)
        await self._writer.drain()

    async def until_closed(self) -> None:
        """The gateway has cut this connection."""
        await self._reader.read()


Script = Callable[[Received, Connection], Awaitable[None]]


class FakeChild:
    """Reads each request whole, then does as the script says; the connection ends with it."""

    def __init__(self, script: Script) -> None:
        self.address = ""
        self.received: list[Received] = []
        self.ended = 0
        self.arrived = asyncio.Event()
        self._script = script
        self._connections: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def stop(self) -> None:
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = [line.partition(": ") for line in head[1:] if line]
            headers = [(name.lower(), value) for name, _, value in pairs]
            body = await reader.readexactly(int(dict(headers)["content-length"]))
            self.received.append(Received(head[0], headers, body))
            self.arrived.set()
            await self._script(self.received[-1], Connection(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended += 1
            writer.close()


@asynccontextmanager
async def fake_child(path: Path | None, script: Script) -> AsyncIterator[FakeChild]:
    """Without a path, on a port of loopback."""
    child = FakeChild(script)
    server: asyncio.Server
    if path is not None:
        server = await asyncio.start_unix_server(child.accept, str(path), limit=1 << 20)
        child.address = str(path)
    else:
        server = await asyncio.start_server(child.accept, "127.0.0.1", limit=1 << 20)
        child.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield child
    finally:
        server.close()
        await child.stop()
        await server.wait_closed()
