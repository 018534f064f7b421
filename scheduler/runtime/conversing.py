"""What can be asked about conversations, each as one method, as in operations.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scheduler.core.events import Detached
from scheduler.core.values import RequestId
from scheduler.protocol import (
    Refused,
    Seen,
    Stop,
    Stream,
    Streams,
    StreamsState,
    StreamState,
)

from .conversations import Conversations
from .owner import Owner


class Conversing:
    def __init__(self, owner: Owner, conversations: Conversations) -> None:
        self._owner = owner
        self._conversations = conversations

    def detach(self, request: RequestId) -> None:
        """The client of a conversation that waits has lost its connection."""
        self._owner.post(Detached(request))

    def stop(self, asked: Stop, done: Callable[[], None]) -> None:
        """`done` is called when the child has been told, if there is one to tell."""
        stop = self._conversations.stop
        self._owner.post(partial(stop, asked.owner, asked.conversation, done))

    def stream(self, asked: Stream, answer: Callable[[StreamState | Refused], None]) -> None:
        def look() -> None:
            try:
                answer(self._conversations.state(asked.owner, asked.conversation))
            except Refused as refusal:
                answer(refusal)

        self._owner.post(look)

    def streams(self, asked: Streams, answer: Callable[[StreamsState], None]) -> None:
        def look() -> None:
            found = self._conversations.states(asked.owner, asked.conversations)
            answer(StreamsState(found))

        self._owner.post(look)

    def seen(self, asked: Seen) -> None:
        seen = self._conversations.seen
        self._owner.post(partial(seen, asked.owner, asked.conversation, asked.stream))
