"""What may end a request from outside: its client leaving, a time limit, the shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum, auto
from types import TracebackType
from typing import Any

logger = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Any]]

CLIENT_GONE = "corral.client_gone"
"""Among the `extensions` of an ASGI scope: a future of the server's that is done when the client
has left. Where a server has it, no task has to wait for `receive` to say so, which is a tenth of
what a short request costs."""


AT_HAND = "corral.at_hand"
"""Among them as well: whether `receive` would not wait, for what it says is there. Where a server
has it, no timer has to be set for a body that came with its head."""


class Cause(StrEnum):
    CLIENT_GONE = auto()
    BODY_IDLE = auto()  # nothing more of the body came
    FIRST_BYTE = auto()  # the child has not begun to answer
    BETWEEN_TOKENS = auto()  # the child stopped in mid-answer
    ANSWER_LIMIT = auto()
    SLOW_READER = auto()  # the client does not take what is sent
    SHUTDOWN = auto()
    KEY_ENDED = auto()  # the key that let it in is revoked, or has expired
    SESSION_ENDED = auto()  # its person has logged out, or may not enter the admin any more


class Interrupted(Exception):
    """The block was left because of `cause`."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


class Watch:
    """One request's watch. `with watch:` marks what may be interrupted.

    An interruption inside such a block cancels what the request awaits and comes out of the block
    as Interrupted; outside, it is remembered and the next block is not entered. Only the first one
    counts. There is one timer for all limits: setting a later limit costs no call to the loop.
    """

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.cause: Cause | None = None
        self.queued = False
        """Waiting for a lease: nothing is lost when such a request ends at once."""
        self.key = ""
        """The public id of the key that let it in; empty without one."""
        self.session: Callable[[], Awaitable[str | None]] | None = None
        """Who listens by the session that let it in; None, or telling None: nobody does."""
        self.listens = False
        """It stays open for as long as its client likes: what it may not outlive is its key."""
        self.unattended = False
        """Its client has gone, and the scheduler keeps its lease: nothing is lost either."""
        self._task = task
        self.loop = task.get_loop()
        self._armed = False
        self._cancelled = False
        self._cancelling_before = 0
        self._limit: tuple[float, Cause] | None = None
        self._last: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._follower: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] | None = None

    def __enter__(self) -> Watch:
        if self.cause is not None:
            raise Interrupted(self.cause)
        self._cancelling_before = self._task.cancelling()
        self._armed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._armed = False
        if not self._cancelled:
            return
        self._cancelled = False
        ours = self._task.uncancel() <= self._cancelling_before
        if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            assert self.cause is not None
            raise Interrupted(self.cause) from error

    def interrupt(self, cause: Cause) -> None:
        if self.cause is not None:
            return
        self.cause = cause
        if self._armed:
            self._cancelled = True
            self._task.cancel()

    def limit(self, seconds: float, cause: Cause) -> None:
        """From now on, at most this long until the next call of `limit` or `no_limit`."""
        when = self.loop.time() + seconds
        if self._last is not None and self._last < when:
            when, cause = self._last, Cause.ANSWER_LIMIT
        self._limit = (when, cause)
        self._set_timer(when)

    def limit_answer(self, seconds: float) -> None:
        """However the parts go, the answer ends after this long."""
        self._last = self.loop.time() + seconds

    def no_limit(self) -> None:
        self._limit = self._last = None

    def follow(self, receive: Receive, gone: asyncio.Future[None] | None = None) -> None:
        """See the client leave: by `gone`, if the server has it. Only after the body: from here on
        `receive` says nothing else."""
        if gone is not None:
            self._gone = gone
            gone.add_done_callback(self._client_left)
            return
        self._follower = self.loop.create_task(self._until_gone(receive), name="client watch")

    def close(self) -> None:
        """No interruption any more."""
        self.cause = self.cause or Cause.CLIENT_GONE
        self._limit = None
        if self._timer is not None:
            self._timer.cancel()
        if self._follower is not None:
            self._follower.cancel()
        if self._gone is not None:
            self._gone.remove_done_callback(self._client_left)

    def _client_left(self, _gone: asyncio.Future[None]) -> None:
        self.interrupt(Cause.CLIENT_GONE)

    async def _until_gone(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        except Exception:
            # Without a watch the request would go on for nobody.
            logger.exception("The server's receive() failed: taken for a client that left")
        self.interrupt(Cause.CLIENT_GONE)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return  # it looks again when it goes off
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        if self._limit is None:
            return
        when, cause = self._limit
        if self.loop.time() < when:
            self._set_timer(when)
        else:
            self.interrupt(cause)
