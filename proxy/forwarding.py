"""One request's way: to a lease, to a child and back; once again if the child died first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec

from models_registry.allowing import Allowed
from proxy.abandoned import AbandonedAnswers, Left
from proxy.attempts import ATTEMPTS, Attempts, broken_off
from proxy.body import Body, Room
from proxy.callers import Caller
from proxy.conf import ProxyConfig
from proxy.filtering import Filtering
from proxy.headers import end_of_head
from proxy.key_ring import KeyRing
from proxy.limits.reserving import LEAST_BLOB, charge_of, prompt_of
from proxy.media.settling import Media
from proxy.outgoing import Outgoing
from proxy.parsing import Parsing
from proxy.relay import Relay
from proxy.remote.client import RemoteClient
from proxy.remote.request import Asked, refuse_what_came_back, via_of
from proxy.scopes import Scope
from proxy.standing import leased_as_allowed
from proxy.upstream import Answer, UpstreamFailed
from proxy.usage.asked_usage import PATHS
from proxy.usage.meter import Meter
from proxy.watch import Cause, Interrupted, Watch
from scheduler.charging import Charge
from scheduler.client import Conversation, Lease, SchedulerClient
from scheduler.protocol import Refused, Remote


class Order(msgspec.Struct, frozen=True):
    """What is to be carried. `id` is what the client knows it by, `head` the request's head as the
    child gets it but for its end, `asked` what the client sent of it, `sticky` who goes to the same
    instance each time. `form` is the Content-Type of a multipart form, None for another body.
    `keep_alive` is for how many seconds the client wishes the model kept, None without a wish; it
    is heard of those who may load."""

    id: str
    head: bytes
    body: Body
    model: str
    caller: Caller
    autoload: bool
    arrived: float
    asked: Asked
    meter: Meter
    sticky: str = ""
    kind: Literal["post", "get"] = "post"
    is_json: bool = True
    form: bytes | None = None
    conversation: Conversation | None = None
    keep_alive: float | None = None


@dataclass(frozen=True, slots=True)
class Carriers:
    """What all requests of a process share."""

    config: ProxyConfig
    scheduler: SchedulerClient
    keys: KeyRing
    abandoned: AbandonedAnswers
    filtering: Filtering
    media: Media
    parsing: Parsing
    remotes: RemoteClient

    async def close(self) -> None:
        self.media.close()
        await self.abandoned.close()
        await self.remotes.close()
        await self.scheduler.close()


def carriers_of(
    config: ProxyConfig,
    scheduler: SchedulerClient,
    keys: KeyRing,
    parsing: Parsing,
    room: Room,
) -> Carriers:
    return Carriers(
        config,
        scheduler,
        keys,
        AbandonedAnswers(),
        Filtering(parsing, room, config.temp_folder),
        Media(config, parsing, room),
        parsing,
        RemoteClient(via=via_of(config.secret_key), proxy=config.upstream_proxy),
    )


class Forwarding:
    """Every lease that it takes ends: released, or handed over as abandoned."""

    def __init__(self, order: Order, carriers: Carriers, relay: Relay, watch: Watch) -> None:
        self._order = order
        self._carriers = carriers
        self._relay = relay
        self._config = relay.config  # a conversation's has a slower reader than the gateway's
        self._watch = watch
        self._meter = order.meter
        self._outgoing = Outgoing(
            order.body,
            carriers.filtering,
            relay,
            form=order.form,
            is_json=order.is_json,
            may_ask_usage=carriers.config.usage_ask and order.meter.asking.path in PATHS,
            path=order.asked.path,
        )
        self._attempts = Attempts(order.model)
        self._charged: Charge | None = None
        self._remote_tries = 0

    async def run(self) -> None:
        """Raises Refused (the relay knows how it can still be said) or Interrupted."""
        refuse_what_came_back(self._order.asked.headers, self._carriers.remotes.via)
        try:
            await self._outgoing.settle(self._carriers.media, self._carriers.parsing, self._watch)
            while True:
                lease = await self._acquire()
                await self._leave_if_nobody_comes_back(lease)
                if lease.stream and (named := self._order.conversation) is not None:
                    self._meter.opens_conversation(named.owner, named.id)
                self._relay.granted(self._config.within(lease.limits), lease.rate)
                if lease.remote is not None:
                    if await self._passed_by_remote(lease, lease.remote):
                        return
                    continue
                answer = await self._first_byte(lease)
                if answer is not None:
                    await self._pass_on(lease, answer)
                    return
        finally:
            self._outgoing.end()

    async def load(self) -> None:
        """Only have the model loaded. Raises Refused or Interrupted."""
        lease = await self._acquire()
        self._relay.granted(self._config, lease.rate)
        await lease.release(read=0, cached=0, answered=0)

    async def _acquire(self) -> Lease:
        lease = await self._asked_for()
        if self._order.keep_alive is not None and Scope.LOAD in self._order.caller.scopes:
            lease.keep(self._order.caller.team, self._order.keep_alive)
        return lease

    async def _asked_for(self) -> Lease:
        now = partial(self._carriers.keys.as_known, self._order.caller)
        return await leased_as_allowed(self._order.caller, now, self._asked_for_among)

    async def _asked_for_among(self, allowed: Allowed) -> Lease:
        order, watch = self._order, self._watch
        caller, now = order.caller, watch.loop.time()
        charge = await self._charge()
        watch.queued = True
        self._meter.waits()
        try:
            with watch:
                lease = await self._carriers.scheduler.acquire(
                    order.model,
                    kind=order.kind,
                    tenant=caller.team,
                    age=now - order.arrived,
                    autoload=order.autoload,
                    weight=caller.policy.weight,
                    priority=caller.policy.priority,
                    request=order.id,
                    sticky=order.sticky,
                    own=caller.own_names(order.model),
                    allowed=allowed,
                    conversation=order.conversation,
                    charge=charge,
                )
        finally:
            watch.queued = False
        self._meter.granted(lease)
        return lease

    async def _charge(self) -> Charge:
        """The same at each try."""
        order = self._order
        if self._charged is None:
            self._charged = await charge_of(
                order.caller,
                self._meter.id,
                order.asked.path,
                order.body,
                self._carriers.parsing,
                is_json=order.is_json,
            )
            meter = self._meter
            if self._charged.prompt:
                meter.prompt = self._charged.prompt  # one estimate for both
            elif meter.prompt is not None and order.body.size >= LEAST_BLOB:
                meter.prompt = await prompt_of(order.body, self._carriers.parsing)
        return self._charged

    async def _passed_by_remote(self, lease: Lease, remote: Remote) -> bool:
        from proxy.remote.passage import Passage  # aiohttp: 6 MB that only remotes need

        self._remote_tries += 1
        passage = Passage(
            self._order, self._carriers, self._relay, self._watch, self._outgoing, lease, remote
        )
        return await passage.run(last=self._remote_tries >= ATTEMPTS)

    async def _leave_if_nobody_comes_back(self, lease: Lease) -> None:
        """Its client has lost its connection meanwhile, and this engine keeps no streams."""
        conversation = self._order.conversation
        if conversation is not None and conversation.detached and not lease.stream:
            await lease.release(read=0, cached=0, answered=0)
            raise Interrupted(Cause.CLIENT_GONE)

    async def _first_byte(self, lease: Lease) -> Answer | None:
        """None when the child died and the request may be tried again."""
        order, config = self._order, self._relay.config
        answer = Answer(self._watch.loop)
        try:
            with self._watch as watch:
                watch.limit_answer(config.answer_timeout_seconds)
                watch.limit(config.first_byte_timeout_seconds, Cause.FIRST_BYTE)
                body = await self._outgoing.body(lease)
                sending = await answer.ask(
                    lease.address,
                    order.head + _stream_header(lease) + end_of_head(body.size),
                    body.to_send(),
                    config.connect_timeout_seconds,
                )
                if sending is not None:
                    body.sent_by(sending)
                await answer.begin()
            return answer
        except UpstreamFailed:
            answer.close()
            self._watch.no_limit()
            await self._attempts.judge(lease)
            self._meter.failed_try("scheduler_unavailable" if lease.lost.is_set() else "model_died")
            return None
        except Refused:  # of the body that it was to get: it was not asked
            answer.close()
            await lease.release(read=0, cached=0, answered=0)
            raise
        except BaseException as left:
            self._leave(lease, answer, left)
            raise

    async def _pass_on(self, lease: Lease, answer: Answer) -> None:
        try:
            await self._relay.copy(answer)
        except UpstreamFailed as error:
            answer.close()
            raise await self._broken_off(lease, answer) from error
        except BaseException as left:
            self._leave(lease, answer, left)
            raise
        answer.close()
        counted = self._relay.count(answer)
        await lease.release(
            read=counted.read,
            cached=counted.cached,
            answered=counted.answered,
            unread=bool(lease.stream),
        )
        await self._relay.finish()

    async def _broken_off(self, lease: Lease, answer: Answer) -> Refused:
        """The child died in mid-answer."""
        counted = self._relay.count(answer, whole=False)
        ended = await lease.release(
            died=True, read=counted.read, cached=counted.cached, answered=counted.answered
        )
        refused = broken_off(ended, self._order.model or lease.preset)
        self._meter.cut(refused, counted)
        return refused

    def _leave(self, lease: Lease, answer: Answer, left: BaseException) -> None:
        conversation = self._order.conversation
        if lease.stream and conversation is not None:
            if _ends_the_process(left):
                answer.close()  # the lease stays with the scheduler, which watches the stream
                self._meter.cut(left, self._relay.count(answer, whole=False))
            else:
                stop = self._carriers.scheduler.stop(conversation.owner, conversation.id)
                self._carriers.abandoned.stop_stream(self._left(lease, answer, left), stop)
        elif answer.begun and answer.is_stream:
            self._carriers.abandoned.close_stream(self._left(lease, answer, left))
        else:
            self._carriers.abandoned.read_on(self._left(lease, answer, left))

    def _left(self, lease: Lease, answer: Answer, left: BaseException) -> Left:
        """What others take over from here."""
        longest = self._relay.config.answer_timeout_seconds
        relay = self._relay
        return Left(lease, answer, longest, self._meter.hand_over(), left, relay.tail, relay.passed)


def _stream_header(lease: Lease) -> bytes:
    return b"x-conversation-id: %b\r\n" % lease.stream.encode() if lease.stream else b""


def _ends_the_process(left: BaseException) -> bool:
    """Of a task that nobody else interrupts or cancels."""
    if isinstance(left, Interrupted):
        return left.cause is Cause.SHUTDOWN
    return isinstance(left, asyncio.CancelledError)


def interruption(interrupted: Interrupted, config: ProxyConfig) -> Refused | None:
    """What to tell a client whose request was interrupted; None when nobody listens."""
    match interrupted.cause:
        case Cause.FIRST_BYTE:
            seconds = config.first_byte_timeout_seconds
            return Refused(
                "first_byte_timeout", f"The model did not begin to answer within {seconds:g} s."
            )
        case Cause.BETWEEN_TOKENS:
            seconds = config.between_tokens_timeout_seconds
            return Refused("answer_timeout", f"The model said nothing more for {seconds:g} s.")
        case Cause.ANSWER_LIMIT:
            seconds = config.answer_timeout_seconds
            return Refused("answer_timeout", f"The answer took longer than {seconds:g} s.")
        case Cause.KEY_ENDED:
            return key_ended()
        case Cause.SESSION_ENDED:
            return Refused("invalid_api_key", "The session of the admin has ended: log in again.")
        case Cause.SHUTDOWN:
            return Refused(
                "shutting_down", "The gateway is shutting down.", retry_after_seconds=5.0
            )
    return None


def key_ended() -> Refused:
    return Refused(
        "invalid_api_key",
        "This API key was revoked, or has expired, while the request waited or was open.",
    )
