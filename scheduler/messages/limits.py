"""Messages about limits: what a request runs under, and what is left of it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .base import Count, OperationBase, RequestText

CounterText = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,64}\Z")]
MOST_LIMITS = 1000
"""In one `acquire`, and in one `counted`."""


class Limit(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """One row: what `whose` may use, of `model` alone where it names one. `counter` is what it is
    counted by. Requests and tokens of a minute, requests at once, tokens of a day and of a month
    (UTC); null limits nothing, 0 allows nothing."""

    counter: CounterText
    whose: Literal["key", "team", "everybody"] = "key"
    model: str = ""
    requests: Count | None = None
    tokens: Count | None = None
    concurrent: Count | None = None
    day: Count | None = None
    month: Count | None = None

    @property
    def counts_tokens(self) -> bool:
        return (self.tokens, self.day, self.month) != (None, None, None)


class Left(msgspec.Struct, frozen=True):
    """`left` of `limit`; after `seconds` all of it will be, if nothing more comes."""

    limit: int
    left: int
    seconds: float


class Rate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is left of requests and of tokens, each by the limit of which least is left; null where
    nothing limits them."""

    requests: Left | None = None
    tokens: Left | None = None


class Forgo(OperationBase, tag="forgo", frozen=True):
    """The request `charge`, which was released as `unanswered`, is not asked for again: what its
    place in the limits was kept for."""

    charge: RequestText


class Counted(OperationBase, tag="counted", frozen=True):
    """What limits have counted (CountedState), of those named."""

    counters: Annotated[list[CounterText], msgspec.Meta(max_length=MOST_LIMITS)]


class CounterState(msgspec.Struct, frozen=True):
    """`requests` and `tokens` of the last minute, with those under way; `concurrent` are under way.
    `day` and `month` are tokens that answers have used on this one (UTC), `day_held` and
    `month_held` what those under way have reserved of it. After `requests_reset` and `tokens_reset`
    seconds nothing of the minute counts any more, if nothing comes."""

    counter: str
    requests: int
    tokens: int
    concurrent: int
    day: int
    month: int
    day_held: int = 0
    month_held: int = 0
    requests_reset: float = 0.0
    tokens_reset: float = 0.0


class CountedState(msgspec.Struct, frozen=True):
    """What a `counted`'s `ok` holds. A counter that nothing was counted by is not in it."""

    counters: list[CounterState]
