"""Resuming, stopping and finding conversations' streams, as llama.cpp's router does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from proxy.answers import send_json, send_nothing
from proxy.body import Body
from proxy.carriage import Carriage
from proxy.conf import ProxyConfig
from proxy.conversations import asked_id, asked_offset, is_id
from proxy.endpoints import Kind
from proxy.headers import RawHeaders, end_of_head
from proxy.relay import Relay
from proxy.upstream import Answer, UpstreamFailed
from proxy.watch import Cause, Watch
from scheduler.client import SchedulerClient
from scheduler.protocol import MOST_LOOKED_UP, Refused, StreamState

LOOKUP_SECONDS = 0.25
"""How long each child may take to say what it holds."""
RETRY_SECONDS = 1.0
MOST_READERS = 4
"""Of one instance's streams at once, in this process: each holds a thread of the child's."""
PART_BYTES = 256 << 10
LONGEST_LOOKUP = 2 << 20
"""Bytes of a lookup's body: all that may be asked at once, in any spelling. It is read in one go,
and would take twenty times its size."""


class Held(msgspec.Struct):
    """What a lookup tells of one stream, in llama.cpp's words."""

    conversation_id: str
    is_done: bool
    total_bytes: int
    started_at: int
    completed_at: int


class _Lookup(msgspec.Struct):
    conversation_ids: list[str]


_lookup = msgspec.json.Decoder(_Lookup).decode
_held = msgspec.json.Decoder(list[Held]).decode


class Streams:
    """Of one process."""

    def __init__(self, config: ProxyConfig) -> None:
        self._config = config
        self._readers: Counter[str] = Counter()

    async def answer(
        self, carriage: Carriage, body: Body, query: bytes, scheduler: SchedulerClient
    ) -> None:
        """About a conversation that another request has begun. Raises Refused, Interrupted."""
        request, owner = carriage.request, carriage.caller.owner
        told = request.id.encode()
        match carriage.endpoint.kind:
            case Kind.RESUME:
                relay, watch = carriage.relay, carriage.watch
                await self._resume(scheduler, owner, query, request.headers, relay, watch)
            case Kind.STOP:
                await stop_stream(scheduler, owner, asked_id(query, request.headers))
                await send_nothing(request.send, told)
            case _:
                ids = asked_ids(body)
                held = await look_up(scheduler, owner, ids, carriage.watch.loop)
                headers = [(b"cache-control", b"no-store")]
                await send_json(request.send, 200, held, told, headers)

    # Resume ------------------------------------------------------------------------------------

    async def _resume(
        self,
        scheduler: SchedulerClient,
        owner: str,
        query: bytes,
        headers: RawHeaders,
        relay: Relay,
        watch: Watch,
    ) -> None:
        """The stream from a byte on, live as long as it is written. Raises Refused, Interrupted."""
        id, offset = asked_id(query, headers), asked_offset(query)
        with watch:
            where = await _where(scheduler, owner, id)
        if where.state == "kept":
            await self._from_file(where, offset, relay)
        else:
            await self._from_child(scheduler, owner, where, offset, relay, watch)
        await relay.finish()
        scheduler.seen(owner, id, where.stream)

    async def _from_child(
        self,
        scheduler: SchedulerClient,
        owner: str,
        where: StreamState,
        offset: int,
        relay: Relay,
        watch: Watch,
    ) -> None:
        """An instance that has to go meanwhile leaves its finished streams in files."""
        answer = Answer(watch.loop)
        try:
            with self._reading(where.address):
                await self._ask(answer, where, offset, watch)
                await relay.copy(answer)
        except UpstreamFailed as failure:
            again = await _kept(scheduler, owner, where)
            if again is None:
                raise Refused(
                    "model_died", "The connection to the instance of this conversation broke."
                ) from failure
        else:
            again = await _kept(scheduler, owner, where)
        finally:
            answer.close()
        if again is not None and offset + relay.passed < again.begin + again.size:
            await self._from_file(again, offset + relay.passed, relay)

    async def _ask(self, answer: Answer, where: StreamState, offset: int, watch: Watch) -> None:
        asked = urlencode({"conv_id": where.stream, "from": offset})
        head = f"GET /v1/stream?{asked} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        with watch:
            watch.limit(self._config.first_byte_timeout_seconds, Cause.FIRST_BYTE)
            await answer.ask(
                where.address,
                head.encode() + end_of_head(0),
                b"",
                self._config.connect_timeout_seconds,
            )
            await answer.begin()
        if answer.status == 404:
            raise lost() if where.state == "ended" else _not_yet()

    async def _from_file(self, where: StreamState, offset: int, relay: Relay) -> None:
        if offset < where.begin:
            raise Refused("invalid_request", "Stream offset lost, please restart")
        try:
            data = await asyncio.to_thread(Path(where.path).read_bytes)
        except OSError as gone:
            raise lost() from gone
        await relay.copy(KeptAnswer(data[offset - where.begin :]))

    @contextmanager
    def _reading(self, address: str) -> Iterator[None]:
        if self._readers[address] >= MOST_READERS:
            raise Refused(
                "conversation_waiting",
                "Too many connections read streams of this model at this moment: retry later.",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._readers[address] += 1
        try:
            yield
        finally:
            self._readers[address] -= 1
            if not self._readers[address]:
                del self._readers[address]


# Stop and lookup ----------------------------------------------------------------------------------


async def stop_stream(scheduler: SchedulerClient, owner: str, id: str) -> None:
    """Whatever the id: nobody learns whether it is another's."""
    if is_id(id):
        await scheduler.stop(owner, id)


def asked_ids(body: Body) -> list[str]:
    """Of a lookup; none for a body that is none, as in llama.cpp. Raises Refused for more than may
    be asked at once."""
    if body.size > LONGEST_LOOKUP:
        raise _too_many()
    try:
        with body.view() as view:
            ids = _lookup(view).conversation_ids
    except (msgspec.DecodeError, RecursionError):
        return []
    if len(ids) > MOST_LOOKED_UP:
        raise _too_many()
    return [id for id in ids if is_id(id)]


def _too_many() -> Refused:
    return Refused("invalid_request", f"Ask for {MOST_LOOKED_UP} conversations at once, at most.")


async def look_up(
    scheduler: SchedulerClient, owner: str, ids: list[str], loop: asyncio.AbstractEventLoop
) -> list[Held]:
    """What is known of these, and of those that begin with one of them and `::`."""
    found = await scheduler.streams(owner, ids) if ids else []
    by_address: dict[str, list[StreamState]] = {}
    for state in found:
        if state.address:
            by_address.setdefault(state.address, []).append(state)
    asked = (held_by_child(address, states, loop) for address, states in by_address.items())
    said = {held.conversation_id: held for told in await asyncio.gather(*asked) for held in told}
    own = {state.conversation: _own(state) for state in found if state.state != "ended"}
    return list((own | said).values())


class KeptAnswer:
    """The rest of a stream whose instance has gone, as an answer."""

    status = 200
    is_stream = True
    is_encoded = False

    def __init__(self, data: bytes) -> None:
        self.headers = [(b"content-type", b"text/event-stream")]
        self._data = memoryview(data)
        self.first = bytes(self._data[:PART_BYTES])
        self._at = len(self.first)

    @property
    def ended(self) -> bool:
        return self._at >= len(self._data)

    async def more(self) -> bytes:
        part = bytes(self._data[self._at : self._at + PART_BYTES])
        self._at += len(part)
        return part


def lost() -> Refused:
    return Refused(
        "conversation_lost", "The stream of this conversation is not kept any more: send it again."
    )


async def _where(scheduler: SchedulerClient, owner: str, id: str) -> StreamState:
    if not is_id(id):
        raise lost()
    where = await scheduler.stream(owner, id)
    if where.state == "waiting":
        raise _not_yet()
    return where


def _not_yet() -> Refused:
    """The text is llama.cpp's."""
    return Refused(
        "conversation_waiting",
        "Stream owner model is loading, retry later",
        retry_after_seconds=RETRY_SECONDS,
    )


async def _kept(scheduler: SchedulerClient, owner: str, where: StreamState) -> StreamState | None:
    """Where the same stream is now, if its instance has left it in a file."""
    try:
        now = await scheduler.stream(owner, where.conversation)
    except Refused:
        return None
    return now if now.state == "kept" and now.stream == where.stream else None


async def held_by_child(
    address: str, states: list[StreamState], loop: asyncio.AbstractEventLoop
) -> list[Held]:
    """By the names of their clients; nothing of a child that does not say."""
    names = {state.stream: state.conversation for state in states}
    body = msgspec.json.encode({"conversation_ids": list(names)})
    head = b"POST /v1/streams/lookup HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    answer = Answer(loop)
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            await answer.ask(address, head + end_of_head(len(body)), body, LOOKUP_SECONDS)
            await answer.begin()
            said = answer.first
            while part := await answer.more():
                said += part
        held = _held(said)
    except (UpstreamFailed, TimeoutError, msgspec.DecodeError, RecursionError):
        return []
    finally:
        answer.close()
    for each in held:
        each.conversation_id = names.get(each.conversation_id, "")
    return [each for each in held if each.conversation_id]


def _own(state: StreamState) -> Held:
    """Of one that is in no child, or of which its child says nothing yet."""
    kept = state.state == "kept"
    return Held(state.conversation, kept, state.begin + state.size, state.began, state.ended)
