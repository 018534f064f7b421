"""How leases end: released by who held them, or left behind when its connection broke."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from scheduler.core.events import Abandoned, Cancelled, Released, RemoteHeard
from scheduler.core.values import Kind, RequestId
from scheduler.protocol import Ended

from .conversations import Conversations
from .instance_run import InstanceRun
from .kv_saves.keeping import KvSaves
from .orphans import Orphans
from .owner import Owner
from .remote_run import RemoteRun

DEATH_SECONDS = 2.0
"""How long a release with `died` waits for the exit, to tell how the child ended."""


class LeaseEnds:
    """As operations.py: each method takes effect in the owner's turn."""

    def __init__(
        self,
        owner: Owner,
        conversations: Conversations,
        answer_seconds: float,
        saves: KvSaves,
    ) -> None:
        self._owner = owner
        self._saves = saves
        self._conversations = conversations
        self._orphans = Orphans(owner, answer_seconds)
        self.ended: list[Callable[[RequestId], None]] = []
        """Called in the owner's turn of each request that waits no more, or whose lease is nobody's
        any more."""

    def cancel(self, request: RequestId) -> None:
        """The waiter leaves; a lease that it was granted meanwhile ends."""

        def leave() -> None:
            self._owner.waiting.leave(request)
            self._conversations.left(request)
            self._owner.handle(Cancelled(request))

        self._post(leave, request)

    def release(
        self,
        request: RequestId,
        answer: Callable[[Ended | None], None],
        *,
        died: bool = False,
        tokens: int | None = None,
        unread: bool = False,
        unanswered: bool = False,
        context: int | None = None,
        cached: int | None = None,
    ) -> None:
        """`answer` gets how the instance ended, None when it lives. With `died` the slot stays
        taken until that is known: nobody else shall be sent to a dying child. `tokens` were
        computed for it; None when nobody has counted. `unanswered`: it got nothing, and may be
        asked for again. `context` are the tokens of its prompt and its answer together, `cached`
        those of its prompt that the child had read before."""

        def release() -> None:
            asked = self._owner.waiting.leave(request)
            self._conversations.released(request, died=died, unread=unread)
            if unanswered:
                self._owner.limiting.fail(request)
            run = asked.run if asked is not None else None
            if asked is not None and asked.kind is not Kind.GET and isinstance(run, InstanceRun):
                self._saves.ended(run, asked.tenant, context, cached)
            if run is None:
                answer(None)
            elif isinstance(run, RemoteRun):
                self._owner.handle(Released(request, tokens))
                answer(None)
            elif died and not run.over.is_set():
                self._owner.begin(self._after_death(run, request, answer), f"death-{request}")
            else:
                self._owner.handle(Released(request, tokens))
                answer(run.ended)

        self._post(release, request)

    def heard(self, request: RequestId, failed: str) -> None:
        """A remote began to answer it, or failed."""
        self._owner.post(RemoteHeard(request, failed))

    def abandon(self, request: RequestId) -> None:
        """Its client has left; whoever holds the child's connection will still release it."""
        self._owner.post(Abandoned(request))

    def desert(self, request: RequestId) -> None:
        """The connection that asked broke: a waiter leaves, a lease is abandoned and watched, but
        for a conversation's, whose client may come back. A look keeps no slot busy, so there is
        nothing to watch."""

        def desert() -> None:
            asked = self._owner.waiting.leave(request)
            run = asked.run if asked is not None else None
            if asked is None or run is None:
                self._conversations.left(request)
                self._owner.handle(Cancelled(request))
                return
            if self._conversations.holds_on(request):
                return
            if asked.kind is Kind.GET or isinstance(run, RemoteRun):
                # Of a remote nothing goes on: whoever died held the connection to it.
                self._owner.handle(Released(request))
                return
            self._owner.handle(Abandoned(request))
            self._orphans.add(run, request)

        self._post(desert, request)

    def _post(self, end: Callable[[], None], request: RequestId) -> None:
        self._owner.post(end)
        for told in self.ended:
            self._owner.post(partial(told, request))

    async def _after_death(
        self, run: InstanceRun, request: RequestId, answer: Callable[[Ended | None], None]
    ) -> None:
        try:
            async with asyncio.timeout(DEATH_SECONDS):
                await run.over.wait()
        except TimeoutError:
            pass  # it lives: only that one connection to it has broken
        self._owner.post(partial(self._owner.handle, Released(request)))
        self._owner.post(lambda: answer(run.ended))
