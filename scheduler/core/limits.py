"""Who may ask now, and for how much: requests and tokens of a minute, requests at once, tokens of a
day and a month (docs/limits.md).

What a request may use is reserved when it comes in, and settled by what it has used when it ends:
so however many come at once, no limit is passed. Nobody waits for a limit: who runs into one is
refused at once, and counts nowhere. No clock is read here; the moment is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .limit_counter import Counter
from .limit_values import Charged, Left, Limit, Measure, Moment, Short, month_of
from .values import RequestId

AGAIN_SECONDS = 5.0
"""A request that got nothing comes again within that time, if it does; its place is kept for it."""
LAST_WORD_SECONDS = 10.0
"""So long after its child has died a lease's holder may still say what it has used."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a request has reserved: of these limits, since it came in at `since` on `day`. `id` is
    the same when it is tried again."""

    id: str
    limits: tuple[Limit, ...]
    tokens: int
    since: float
    day: str


class Limits:
    """Each method that ends a hold is harmless for a request that has none."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._holds: dict[RequestId, Hold] = {}
        self._between_tries: dict[str, tuple[float, Hold]] = {}
        self._lost: dict[RequestId, float] = {}

    def __contains__(self, request: RequestId) -> bool:
        return request in self._holds

    @property
    def waits(self) -> bool:
        """Whether time will end a hold (`pass_time`)."""
        return bool(self._between_tries or self._lost)

    # Coming in --------------------------------------------------------------------------------

    def come_in(
        self,
        request: RequestId,
        limits: Iterable[Limit],
        moment: Moment,
        *,
        id: str = "",
        tokens: int = 0,
    ) -> Short | None:
        """It holds what it may use, `tokens` of them, and None is returned; or the one of
        its limits is returned that keeps it out for the longest, and none counts it."""
        id = id or f"#{request}"
        waiting = self._between_tries.pop(id, None)
        if waiting is not None:
            self._holds[request] = waiting[1]
            return None
        limits = tuple(limits)
        shorts: list[Short] = []
        for limit in limits:
            counter = self._counter(limit.counter)
            counter.forget(moment.now)
            shorts += counter.shorts(limit, id, tokens, moment)
        if shorts:
            return max(shorts, key=_severity)
        for limit in limits:
            self._counter(limit.counter).count(limit, id, tokens, moment)
        self._holds[request] = Hold(id, limits, tokens, moment.now, moment.day)
        return None

    # How a hold ends --------------------------------------------------------------------------

    def settle(self, request: RequestId, tokens: int | None, now: float) -> Charged | None:
        """It was answered and used so many; None: nobody knows, and what it had reserved counts.
        What it used beyond that counts in the minute in which this is known."""
        hold = self._end(request)
        return None if hold is None else self._settle(hold, tokens, now)

    def leave(self, request: RequestId) -> None:
        """It left before it was answered. It came in all the same."""
        self._end(request)

    def refund(self, request: RequestId) -> None:
        """It was refused after all: it has not come in."""
        if (hold := self._end(request)) is not None:
            self._uncount(hold)

    def fail(self, request: RequestId, now: float) -> None:
        """It got nothing, and may come again: then it goes on with what it holds."""
        hold = self._holds.pop(request, None)
        self._lost.pop(request, None)
        if hold is None:
            return
        if (before := self._between_tries.pop(hold.id, None)) is not None:
            self._give_back(before[1])
        self._between_tries[hold.id] = now + AGAIN_SECONDS, hold

    def give_up(self, request_id: str) -> None:
        """It does not come again after it failed: it has not come in."""
        if (waiting := self._between_tries.pop(request_id, None)) is not None:
            self._give_back(waiting[1])
            self._uncount(waiting[1])

    def lose(self, request: RequestId, now: float) -> None:
        """Its child is gone. Its holder will say what it has used, or that it got nothing."""
        if request in self._holds:
            self._lost.setdefault(request, now + LAST_WORD_SECONDS)

    def pass_time(self, now: float) -> list[Charged]:
        """Those that did not come again, and those of whom nobody has said what they used."""
        for id in [id for id, (until, _) in self._between_tries.items() if until <= now]:
            self.give_up(id)
        over = [request for request, until in self._lost.items() if until <= now]
        charged = [self.settle(request, None, now) for request in over]
        return [each for each in charged if each is not None]

    def _end(self, request: RequestId) -> Hold | None:
        self._lost.pop(request, None)
        hold = self._holds.pop(request, None)
        if hold is not None:
            self._give_back(hold)
        return hold

    def _give_back(self, hold: Hold) -> None:
        for limit in hold.limits:
            self._counter(limit.counter).give_back(limit, hold.tokens, hold.day)

    def _uncount(self, hold: Hold) -> None:
        for limit in hold.limits:
            self._counter(limit.counter).uncount(hold.id)

    def _settle(self, hold: Hold, tokens: int | None, now: float) -> Charged | None:
        used = hold.tokens if tokens is None else tokens
        beyond = max(0, used - hold.tokens)
        for limit in hold.limits:
            counter = self._counter(limit.counter)
            counter.spend(limit, used - beyond, hold.day, hold.since, now)
            if beyond:
                counter.spend(limit, beyond, hold.day, now, now)
        counters = tuple(limit.counter for limit in hold.limits if limit.has_budget)
        return Charged(hold.day, used, counters) if used and counters else None

    # What is known ----------------------------------------------------------------------------

    def remember(self, counter: str, period: str, tokens: int) -> None:
        """What an earlier life has charged on a day, or in a month."""
        self._counter(counter).use(period, tokens)

    def left(self, limits: Iterable[Limit], moment: Moment) -> tuple[Left | None, Left | None]:
        """Of requests and of tokens, by the limit of which least is left."""
        requests: list[Left] = []
        tokens: list[Left] = []
        for limit in limits:
            counter = self._counter(limit.counter)
            counter.forget(moment.now)
            if (left := counter.requests_left(limit, moment.now)) is not None:
                requests.append(left)
            tokens += counter.tokens_left(limit, moment)
        return min(requests, key=_tightness, default=None), min(
            tokens, key=_tightness, default=None
        )

    def limits_of(self, request: RequestId) -> tuple[Limit, ...]:
        hold = self._holds.get(request)
        return () if hold is None else hold.limits

    def counted(self, counter: str, moment: Moment) -> Counted | None:
        """None when nothing has been counted by it."""
        found = self._counters.get(counter)
        if found is None:
            return None
        found.forget(moment.now)
        return Counted(
            requests=found.requests,
            tokens=found.tokens,
            concurrent=found.concurrent,
            day=found.used.get(moment.day, 0),
            month=found.used.get(month_of(moment.day), 0),
            day_held=found.held_on(moment.day),
            month_held=found.held_on(month_of(moment.day)),
            requests_reset=found.requests_reset(moment.now),
            tokens_reset=found.tokens_reset(moment.now),
        )

    def tidy(self, now: float) -> None:
        """Of those that nobody asks for any more nothing is kept but their budgets."""
        for name, counter in list(self._counters.items()):
            counter.forget(now)
            if counter.is_empty:
                del self._counters[name]

    def _counter(self, name: str) -> Counter:
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = Counter()
        return counter


@dataclass(frozen=True, slots=True)
class Counted:
    """What is counted of one row now; `tokens` has in it what those under way hold, `day` and
    `month` have it beside them. Resets are seconds."""

    requests: int
    tokens: int
    concurrent: int
    day: int
    month: int
    day_held: int
    month_held: int
    requests_reset: float
    tokens_reset: float


_ORDER = list(Measure)


def _severity(short: Short) -> tuple[float, int]:
    seconds = float("inf") if short.seconds is None else short.seconds
    return seconds, -_ORDER.index(short.measure)


def _tightness(left: Left) -> tuple[int, int]:
    return left.left, left.most
