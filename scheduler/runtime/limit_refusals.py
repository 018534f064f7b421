"""What those are told who run into a limit: which one, whose, how much of it is used, and when it
is worth trying again."""

from __future__ import annotations

import math

from scheduler.core.limit_values import Measure, Short
from scheduler.protocol import Rate, Refused

ASK_AGAIN_SECONDS = 5.0

_WHOSE = {"key": "your key", "team": "your team", "everybody": "all together"}
_WHAT = {
    Measure.REQUESTS: ("request", "a minute"),
    Measure.TOKENS: ("token", "a minute"),
    Measure.CONCURRENT: ("request", "at a time"),
    Measure.DAY: ("token", "a day"),
    Measure.MONTH: ("token", "a month"),
}
_BUDGETS = frozenset({Measure.DAY, Measure.MONTH})


def limited(short: Short, rate: Rate) -> Refused:
    if short.seconds is None:
        return Refused("request_exceeds_limit", _never(short), rate=rate)
    code = "rate_limit_exceeded"
    if short.measure is Measure.CONCURRENT:
        code = "concurrency_limit_exceeded"
    elif short.measure in _BUDGETS and not short.under_way:
        code = "budget_exhausted"
    message = f"{_limit_of(short)}, and {_used(short)}: {_when(short)}"
    return Refused(code, message, retry_after_seconds=short.seconds, rate=rate)


def budget_unavailable() -> Refused:
    return Refused(
        "budget_unavailable",
        "what requests use cannot be charged to your budget at the moment (the scheduler's disk is "
        "full, or cannot be written): an administrator has to make room",
        retry_after_seconds=ASK_AGAIN_SECONDS,
    )


def _never(short: Short) -> str:
    if not short.most:
        return f"{_limit_of(short)}: nothing is allowed; an administrator can raise the limit"
    return (
        f"{_limit_of(short)}, and this request alone may use {short.asked}: send a shorter prompt, "
        "or ask for fewer tokens (max_tokens)"
    )


def _limit_of(short: Short) -> str:
    limit = short.limit
    what, when = _WHAT[short.measure]
    what = what if short.most == 1 else f"{what}s"
    of_model = f" of the model '{limit.model}'" if limit.model else ""
    return f"{_WHOSE[limit.whose]} may use {short.most} {what} {when}{of_model}"


def _used(short: Short) -> str:
    match short.measure:
        case Measure.REQUESTS:
            return f"{short.used} came in during the last one"
        case Measure.CONCURRENT:
            return f"{short.used} wait or are answered"
        case _:
            return (
                f"{short.used} are used or reserved, while this request may use up to {short.asked}"
            )


def _when(short: Short) -> str:
    if short.under_way:
        return "try again when one of them has ended"
    assert short.seconds is not None, "that is another refusal"
    if short.measure is Measure.DAY:
        return "the next day begins at 00:00 UTC"
    if short.measure is Measure.MONTH:
        return "the next month begins on the 1st at 00:00 UTC"
    return f"try again in {max(1, math.ceil(short.seconds))} s"
