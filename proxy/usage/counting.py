"""How many tokens an answer took: as it says itself, else estimated from what was seen of it."""

from __future__ import annotations

import msgspec

from proxy.sse import Usage

MOST_TOKENS = 1 << 31
"""No request takes more: who states it lies, and counts as one who states nothing."""
BYTES_A_TOKEN = 4
"""Of a text in a request or an answer whose tokens nobody has counted."""

WITHOUT_TOKENS = frozenset(
    {
        "/tokenize",
        "/detokenize",
        "/apply-template",
        "/v1/chat/completions/input_tokens",
        "/chat/completions/input_tokens",
        "/v1/responses/input_tokens",
        "/responses/input_tokens",
        "/v1/messages/count_tokens",
    }
)
"""Paths on which a model computes nothing."""
WITHOUT_TEXT = frozenset(
    {
        "/v1/embeddings",
        "/embeddings",
        "/embedding",
        "/v1/rerank",
        "/v1/reranking",
        "/rerank",
        "/reranking",
        "/api/embed",
        "/api/embeddings",
    }
)
"""Paths whose answers are figures: nothing of them is a token."""


class Counted(msgspec.Struct, frozen=True):
    """Tokens. `read` counts the whole prompt, `cached` what of it was not computed. None is not
    known; `estimated` says that one of them was not told but worked out."""

    read: int | None = None
    cached: int | None = None
    answered: int | None = None
    estimated: bool = False


UNKNOWN = Counted()
NOTHING = Counted(0, 0, 0)


class Seen(msgspec.Struct, frozen=True):
    """What can be seen of an answer from outside: its bytes, and its events if it is a stream."""

    size: int
    events: int
    is_stream: bool


def count(path: str, told: Usage, seen: Seen, asked_tokens: int | None, *, whole: bool) -> Counted:
    """`asked_tokens` is an estimate of the prompt, None where there is none. What a whole answer
    tells counts; of one that was cut, what it told so far or what was seen, whichever is more."""
    if path in WITHOUT_TOKENS:
        return NOTHING
    read, answered = sane(told.read), sane(told.answered)
    if path in WITHOUT_TEXT:
        answered = 0
    if whole and (read is not None or answered):
        return Counted(read, _part_of(read, told.cached), answered)
    produced = 0 if path in WITHOUT_TEXT else _produced(seen)
    return Counted(
        asked_tokens if read is None else read,
        _part_of(read, told.cached),
        max(produced, answered or 0),
        estimated=True,
    )


def prompt_estimate(size: int) -> int:
    """Tokens in a JSON body of so many bytes."""
    return -(-size // BYTES_A_TOKEN)


def _produced(seen: Seen) -> int:
    """An engine that streams sends an event for each token."""
    if seen.is_stream and seen.events:
        return seen.events
    return -(-seen.size // BYTES_A_TOKEN)


def sum_of(one: Counted, other: Counted) -> Counted:
    """Of two answers that nobody estimated. What is unknown of one is nothing beside the other."""
    return Counted(
        _added(one.read, other.read),
        _added(one.cached, other.cached),
        _added(one.answered, other.answered),
    )


def sane(figure: int | None) -> int | None:
    return figure if figure is not None and figure < MOST_TOKENS else None


def _added(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


def _part_of(read: int | None, cached: int | None) -> int | None:
    if read is None or cached is None:
        return None
    return min(read, cached)
