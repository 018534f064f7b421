"""Conversations: which instance writes, or has written, the stream of a client's id.

A name is an owner (the key that made it) and the client's id. The child knows the stream by a key
of our own that nobody can guess, one for each generation: whoever knows a client's id alone can
neither read nor cut it. Everything here is called in the owner's turn, but for the tasks.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from models_registry.engines import EngineKind
from scheduler.core.events import Cancelled, Released, StreamsHeld
from scheduler.core.values import InstanceId, RequestId
from scheduler.protocol import Acquire, Refused, StreamState, StreamStateName

from .child_streams import BUFFER_BYTES, Streams
from .instance_run import InstanceRun
from .kept_streams import Kept, KeptStreams
from .refusals import conversation_lost, request_cancelled
from .waiting import Run

if TYPE_CHECKING:
    from .owner import Owner

logger = logging.getLogger(__name__)

LASTS_SECONDS = 300.0
"""A stream that has ended can be read for so long: the child's own time."""
MOST_ENDED = 512
MOST_ENDED_OF_OWNER = 64
"""Streams that have ended and can be read: each takes up to 4 MiB of its child's memory."""
AGAIN_SECONDS = 5.0
"""A request whose child has died comes again within that time, if it does."""
KEEP_SECONDS = 1.0
"""So long an instance's exit may wait until its unread streams are kept."""
LOOK_EVERY_SECONDS = 0.5
UNKNOWN_LOOKS = 3
"""So often in a row a child must not know a stream until it is taken for one that never began."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0

Name = tuple[str, str]


@dataclass(slots=True, eq=False)
class Conversation:
    """One generation. `run` is None while it waits, and once its instance has gone; times are
    seconds since 1970, `arrived` is monotonic."""

    name: Name
    preset: str
    request: RequestId
    text: str  # what its client knows the request by
    arrived: float
    began: int
    key: str = ""
    run: InstanceRun | None = None
    between_tries: bool = False  # its child died: whoever carries it may ask again
    stopped: bool = False  # meanwhile
    ended: int = 0
    unread: bool = False  # it has ended, and its client may not have all of it
    was_read: bool = False
    kept: Kept | None = None
    expiry: asyncio.TimerHandle | None = None


class Conversations:
    def __init__(self, owner: Owner, streams: Streams, kept: KeptStreams) -> None:
        self._owner = owner
        self._streams = streams
        self._kept = kept
        self._by_owner: dict[str, dict[str, Conversation]] = {}
        self._by_request: dict[RequestId, Conversation] = {}
        self._ended: dict[Conversation, None] = {}
        """Those that can be read, the oldest first."""
        self._unread: dict[InstanceId, set[Conversation]] = {}
        owner.before_exit.append(self._before_exit)
        owner.buried.append(self._gone)

    # A request's way ----------------------------------------------------------------------------

    def begin(self, asked: Acquire, preset: str, request: RequestId, arrived: float) -> None:
        """An older request, or generation, of the same name ends. Raises Refused for one that has
        been replaced itself while it was asked again."""
        name = asked.owner, asked.conversation
        before = self._find(name)
        if before is not None:
            if _is_over(before, asked.request, arrived):
                raise request_cancelled()
            self._end(before)
        conversation = Conversation(
            name, preset, request, asked.request, arrived, began=int(time.time())
        )
        self._by_owner.setdefault(asked.owner, {})[asked.conversation] = conversation
        self._by_request[request] = conversation

    def answered(self, request: RequestId, answer: Run | Refused) -> None:
        conversation = self._by_request.get(request)
        if conversation is None:
            return
        if not isinstance(answer, InstanceRun) or not _keeps_streams(answer):
            self._remove(conversation)  # refused, or from now on as any request
        else:
            conversation.run, conversation.key = answer, secrets.token_hex(16)

    def key_of(self, request: RequestId) -> str:
        """By which the child is to know its stream; empty for a request without one."""
        conversation = self._by_request.get(request)
        return "" if conversation is None else conversation.key

    def left(self, request: RequestId) -> None:
        """It waits no more, and nobody is to answer it."""
        if (conversation := self._by_request.get(request)) is not None:
            self._remove(conversation)

    def released(self, request: RequestId, *, died: bool = False, unread: bool = False) -> None:
        """Its stream has come to its end, or the child died under it. Before the core hears of the
        release: it may end the instance in that very step."""
        conversation = self._by_request.get(request)
        if conversation is None:
            return
        run = conversation.run
        if died or run is None or run.over.is_set():
            self._wait_for_another_try(conversation)
            return
        del self._by_request[request]
        conversation.ended = int(time.time())
        self._ended[conversation] = None
        self._expire_in(conversation, LASTS_SECONDS)
        if unread and not conversation.was_read:
            self._note_unread(conversation, run)
        self._forget_the_oldest(conversation.name[0])

    def holds_on(self, request: RequestId) -> bool:
        """Whether its lease stays although the connection that took it broke: its stream is watched
        to its end then."""
        conversation = self._by_request.get(request)
        if conversation is None or conversation.run is None:
            return False
        watch = self._watch(conversation.run, request, conversation.key)
        self._owner.begin(watch, f"stream-{request}")
        return True

    # What is asked about it ---------------------------------------------------------------------

    def stop(self, owner: str, id: str, done: Callable[[], None]) -> None:
        """It ends, wherever it stands; one that is not there is none of this owner's."""
        conversation = self._find((owner, id))
        if conversation is None:
            done()
            return
        if conversation.between_tries:
            conversation.stopped = True
            done()
            return
        run = conversation.run
        self._end(conversation, done if run is not None else None)
        if run is None:
            done()

    def state(self, owner: str, id: str) -> StreamState:
        """Raises Refused."""
        conversation = self._find((owner, id))
        if conversation is None or conversation.stopped:
            raise conversation_lost()
        return _state(conversation)

    def states(self, owner: str, ids: Iterable[str]) -> list[StreamState]:
        """Those with one of these ids, or with one of them before a `::`."""
        asked = frozenset(ids)
        return [
            _state(conversation)
            for id, conversation in self._by_owner.get(owner, {}).items()
            if not conversation.stopped and any(name in asked for name in _names(id))
        ]

    def seen(self, owner: str, id: str, key: str) -> None:
        """Its client has had all of it, by this or another connection."""
        conversation = self._find((owner, id))
        if conversation is not None and conversation.key == key:
            conversation.was_read = True
            self._note_read(conversation)

    # How it ends --------------------------------------------------------------------------------

    def _end(self, conversation: Conversation, done: Callable[[], None] | None = None) -> None:
        """At once, for whoever asked. A child may compute on for a moment: who holds the lease sees
        the end of it."""
        run = conversation.run
        self._remove(conversation)
        if run is not None:
            stopping = self._stop(run, conversation, done)
            self._owner.begin(stopping, f"stop-stream-{conversation.request}")
            return
        asked = self._owner.waiting.leave(conversation.request)
        if asked is not None:
            self._owner.handle(Cancelled(conversation.request))
            asked.answer(request_cancelled())

    async def _stop(
        self, run: InstanceRun, conversation: Conversation, done: Callable[[], None] | None
    ) -> None:
        """Again and again until its lease has ended: the request may still be on its way to the
        child."""
        pause = FIRST_PAUSE_SECONDS
        while not run.over.is_set():
            await self._streams.stop(run.address, conversation.key)
            if done is not None:
                done()
                done = None
            if not self._holds_a_lease(run, conversation.request):
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        if done is not None:
            done()

    def _holds_a_lease(self, run: InstanceRun, request: RequestId) -> bool:
        instance = self._owner.planner.instances.get(run.instance)
        return instance is not None and request in instance.leases

    async def _watch(self, run: InstanceRun, request: RequestId, key: str) -> None:
        """Nobody else reads this stream: the lease ends when the child says that it has ended. One
        that is not answered counts as working."""
        unknown = 0
        while not run.over.is_set():
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            known = await self._streams.look(run.address, [key])
            if known is None:
                continue
            held = known.get(key)
            unknown = unknown + 1 if held is None else 0
            if unknown >= UNKNOWN_LOOKS or (held is not None and held.is_done):
                self._owner.post(partial(self._watched_to_its_end, request, found=held is not None))
                return

    def _watched_to_its_end(self, request: RequestId, *, found: bool) -> None:
        if found:
            self.released(request, unread=True)
        else:
            self.left(request)
        self._owner.handle(Released(request))

    def _wait_for_another_try(self, conversation: Conversation) -> None:
        """Whoever carries it may ask again; till then it is told as one that waits."""
        self._by_request.pop(conversation.request, None)
        conversation.run, conversation.key, conversation.between_tries = None, "", True
        self._expire_in(conversation, AGAIN_SECONDS)

    def _gone(self, run: InstanceRun) -> None:
        """Its instance has exited."""
        self._unread.pop(run.instance, None)
        for conversation in [c for c in self._all() if c.run is run]:
            if conversation.kept is not None:
                conversation.run = None
            elif conversation.ended:
                self._remove(conversation)
            else:
                self._wait_for_another_try(conversation)

    def _forget_the_oldest(self, owner: str) -> None:
        own = [conversation for conversation in self._ended if conversation.name[0] == owner]
        if len(own) > MOST_ENDED_OF_OWNER:
            self._end(own[0])
        elif len(self._ended) > MOST_ENDED:
            self._end(next(iter(self._ended)))

    def _expire_in(self, conversation: Conversation, seconds: float) -> None:
        if conversation.expiry is not None:
            conversation.expiry.cancel()
        loop = asyncio.get_running_loop()
        expire = partial(self._owner.post, partial(self._expire, conversation))
        conversation.expiry = loop.call_later(seconds, expire)

    def _expire(self, conversation: Conversation) -> None:
        if self._find(conversation.name) is conversation:
            self._remove(conversation)

    def _remove(self, conversation: Conversation) -> None:
        owner, id = conversation.name
        own = self._by_owner.get(owner, {})
        if own.get(id) is conversation:
            del own[id]
            if not own:
                del self._by_owner[owner]
        self._by_request.pop(conversation.request, None)
        self._ended.pop(conversation, None)
        if conversation.expiry is not None:
            conversation.expiry.cancel()
        self._note_read(conversation)
        if conversation.kept is not None:
            self._kept.remove(conversation.kept)
            conversation.kept = None

    # The last victim, and what is kept when it goes -----------------------------------------------

    def _note_unread(self, conversation: Conversation, run: InstanceRun) -> None:
        conversation.unread = True
        unread = self._unread.setdefault(run.instance, set())
        unread.add(conversation)
        if len(unread) == 1:
            self._owner.handle(StreamsHeld(run.instance, unread=True))

    def _note_read(self, conversation: Conversation) -> None:
        conversation.unread = False
        run = conversation.run
        unread = self._unread.get(run.instance) if run is not None else None
        if run is None or unread is None or conversation not in unread:
            return
        unread.remove(conversation)
        if not unread:
            del self._unread[run.instance]
            self._owner.post(partial(self._owner.handle, StreamsHeld(run.instance, unread=False)))

    def _before_exit(self, run: InstanceRun) -> Coroutine[Any, Any, None] | None:
        """What is to be done before it is asked to exit, which would wait for what it writes."""
        unread = () if self._owner.shutting_down else self._unread.get(run.instance, ())
        written = [each.key for each in self._by_request.values() if each.run is run]
        works = [self._keep_one(run, each) for each in unread]
        works += [self._streams.stop(run.address, key) for key in written]
        return _in_time(run, works) if works else None

    async def _keep_one(self, run: InstanceRun, conversation: Conversation) -> None:
        found = await self._streams.read(run.address, conversation.key)
        if found is None or not conversation.unread:
            return
        self._make_room_for(BUFFER_BYTES)
        conversation.kept = self._kept.keep(*found)

    def _make_room_for(self, size: int) -> None:
        """The oldest kept ones go."""
        for conversation in [c for c in self._ended if c.kept is not None and c.run is None]:
            if self._kept.has_room(size):
                return
            self._remove(conversation)

    def _find(self, name: Name) -> Conversation | None:
        owner, id = name
        return self._by_owner.get(owner, {}).get(id)

    def _all(self) -> Iterable[Conversation]:
        return (each for own in self._by_owner.values() for each in own.values())


def _keeps_streams(run: InstanceRun) -> bool:
    """No other engine does."""
    return run.spec.engine.kind == EngineKind.LLAMA_SERVER


async def _in_time(run: InstanceRun, works: list[Coroutine[Any, Any, None]]) -> None:
    try:
        await asyncio.wait_for(asyncio.gather(*works), KEEP_SECONDS)
    except TimeoutError:
        logger.warning("%s: not all streams could be kept or ended in time", run.name)


def _is_over(before: Conversation, text: str, arrived: float) -> bool:
    """Whether a request that asks again was stopped, or replaced, before it did."""
    if before.text == text:
        return before.stopped
    return before.arrived > arrived


def _names(id: str) -> Iterable[str]:
    """By which a lookup finds it: itself, and what stands before a `::`."""
    yield id
    at = id.find("::")
    while at >= 0:
        yield id[:at]
        at = id.find("::", at + 1)


def _state(conversation: Conversation) -> StreamState:
    run, kept = conversation.run, conversation.kept
    named: StreamStateName = "waiting"
    if kept is not None:
        named = "kept"
    elif run is not None:
        named = "ended" if conversation.ended else "generating"
    return StreamState(
        conversation=conversation.name[1],
        state=named,
        stream=conversation.key,
        address="" if run is None or kept is not None else run.address,
        path="" if kept is None else str(kept.path),
        begin=0 if kept is None else kept.begin,
        size=0 if kept is None else kept.size,
        began=conversation.began,
        ended=conversation.ended,
    )
