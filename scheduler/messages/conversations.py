"""Messages about conversations, whose streams outlive their clients' connections."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .base import ConversationText, OperationBase, RequestText

MOST_LOOKED_UP = 1000
"""Conversations in one `streams`."""


class Detach(OperationBase, tag="detach", frozen=True):
    """The client of the waiter `target`, a conversation's, has lost its connection: it waits for a
    minute more at most, and no busy model drains for it."""

    target: int


class Stop(OperationBase, tag="stop", frozen=True):
    """The conversation ends, whether it waits, is generated, or can be read. Of one that is not
    there, or another owner's, nothing ends."""

    conversation: ConversationText
    owner: RequestText = ""


class Stream(OperationBase, tag="stream", frozen=True):
    """Where the stream of a conversation is (StreamState)."""

    conversation: ConversationText
    owner: RequestText = ""


class Streams(OperationBase, tag="streams", frozen=True):
    """The same of all that have one of these ids, or one of them before a `::`."""

    conversations: Annotated[list[ConversationText], msgspec.Meta(max_length=MOST_LOOKED_UP)]
    owner: RequestText = ""


class Seen(OperationBase, tag="seen", frozen=True):
    """The client of a conversation has had all of its `stream`, by whatever connection: it need not
    be kept for it."""

    conversation: ConversationText
    stream: RequestText
    owner: RequestText = ""


StreamStateName = Literal["waiting", "generating", "ended", "kept"]


class StreamState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a conversation's stream is: nowhere yet (`waiting`); in the child at `address`, which
    knows it as `stream`; or in the file `path`, where its instance had to go, from its byte `begin`
    on. `began` and `ended` are seconds since 1970."""

    conversation: str
    state: StreamStateName
    stream: str = ""
    address: str = ""
    path: str = ""
    begin: int = 0
    size: int = 0
    began: int = 0
    ended: int = 0


class StreamsState(msgspec.Struct, frozen=True):
    """What a `streams`' `ok` holds."""

    streams: list[StreamState]
