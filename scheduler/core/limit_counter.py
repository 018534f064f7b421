"""What has been counted of one limit's row: the windows by a sliding log, the budgets by date.

A log, because nothing cheaper keeps the promise: in *any* sixty seconds no more than the limit. It
holds at most as many requests as the limit allows.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from itertools import islice

from .limit_values import (
    WINDOW_SECONDS,
    Left,
    Limit,
    Measure,
    Moment,
    Short,
    month_of,
    still_counts,
)

SOON_SECONDS = 1.0
"""What they are told who only wait for others to end: nobody knows when that is."""
KEPT_PERIODS = 8
"""Of each row so many days and months: a clock that jumps back finds its day as it was."""


class Counter:
    def __init__(self) -> None:
        self.concurrent = 0
        self.held = 0
        """Tokens of those under way."""
        self.used: dict[str, int] = {}
        """Tokens by day, and by month."""
        self._held_on: dict[str, int] = {}
        self._requests: OrderedDict[str, float] = OrderedDict()
        self._spent: list[tuple[float, int]] = []
        """By the time at which the request came in, the oldest first."""
        self._spent_sum = 0

    @property
    def is_empty(self) -> bool:
        return not (self.concurrent or self.held or self._requests or self._spent or self.used)

    @property
    def requests(self) -> int:
        """That came in during the last minute."""
        return len(self._requests)

    @property
    def tokens(self) -> int:
        """Of those that came in during the last minute, and of those under way."""
        return self._spent_sum + self.held

    def forget(self, now: float) -> None:
        """What is older than the window."""
        while self._requests and still_counts(next(iter(self._requests.values())), now) <= 0:
            self._requests.popitem(last=False)
        past = 0
        for since, tokens in self._spent:
            if still_counts(since, now) > 0:
                break
            past += 1
            self._spent_sum -= tokens
        del self._spent[:past]

    # Coming in --------------------------------------------------------------------------------

    def shorts(self, limit: Limit, request: str, tokens: int, moment: Moment) -> list[Short]:
        """Each of the row's limits that the request runs into. `forget` goes before."""
        found = [
            self._short_of_requests(limit, request, moment.now),
            self._short_of_slots(limit),
            self._short_of_tokens(limit, tokens, moment.now),
            self._short_of_budget(limit, Measure.DAY, tokens, moment),
            self._short_of_budget(limit, Measure.MONTH, tokens, moment),
        ]
        return [short for short in found if short is not None]

    def count(self, limit: Limit, request: str, tokens: int, moment: Moment) -> None:
        """A request that has been counted in this minute is not counted again."""
        self.concurrent += 1
        self.held += tokens
        if limit.requests is not None:
            self._requests.setdefault(request, moment.now)
        for period in _periods(limit, moment.day):
            self._held_on[period] = self._held_on.get(period, 0) + tokens

    def _short_of_requests(self, limit: Limit, request: str, now: float) -> Short | None:
        most, used = limit.requests, len(self._requests)
        if most is None or used < most or (most and request in self._requests):
            return None
        seconds: float | None = None
        if most:
            last_to_go = next(islice(self._requests.values(), used - most, None))
            seconds = still_counts(last_to_go, now)
        return Short(limit, Measure.REQUESTS, most, used, 1, seconds)

    def _short_of_slots(self, limit: Limit) -> Short | None:
        most = limit.concurrent
        if most is None or self.concurrent < most:
            return None
        seconds = SOON_SECONDS if most else None
        return Short(limit, Measure.CONCURRENT, most, self.concurrent, 1, seconds, under_way=True)

    def _short_of_tokens(self, limit: Limit, tokens: int, now: float) -> Short | None:
        most, used = limit.tokens, self.tokens
        if most is None or (most and used + tokens <= most):
            return None
        if tokens > most or not most:
            return Short(limit, Measure.TOKENS, most, used, tokens, None)
        over = used + tokens - most
        for since, spent in self._spent:
            over -= spent
            if over <= 0:
                seconds = still_counts(since, now)
                return Short(limit, Measure.TOKENS, most, used, tokens, seconds)
        return Short(limit, Measure.TOKENS, most, used, tokens, SOON_SECONDS, under_way=True)

    def _short_of_budget(
        self, limit: Limit, measure: Measure, tokens: int, moment: Moment
    ) -> Short | None:
        by_day = measure is Measure.DAY
        most = limit.day if by_day else limit.month
        period = moment.day if by_day else month_of(moment.day)
        used, held = self.used.get(period, 0), self.held_on(period)
        if most is None or (most and used + held + tokens <= most):
            return None
        if tokens > most or not most:
            return Short(limit, measure, most, used + held, tokens, None)
        if used + tokens <= most:
            return Short(limit, measure, most, used + held, tokens, SOON_SECONDS, under_way=True)
        seconds = moment.until_next_day if by_day else moment.until_next_month
        return Short(limit, measure, most, used + held, tokens, seconds)

    # Going ------------------------------------------------------------------------------------

    def give_back(self, limit: Limit, tokens: int, day: str) -> None:
        """It holds nothing any more of what it held since it came in."""
        self.concurrent -= 1
        self.held -= tokens
        for period in _periods(limit, day):
            left = self._held_on.get(period, 0) - tokens
            if left:
                self._held_on[period] = left
            else:
                self._held_on.pop(period, None)

    def uncount(self, request: str) -> None:
        """It does not count as one that came in, either."""
        self._requests.pop(request, None)

    def spend(self, limit: Limit, tokens: int, day: str, since: float, now: float) -> None:
        """It came in at `since` on `day`, and used so many tokens."""
        if limit.tokens is not None and tokens and still_counts(since, now) > 0:
            insort(self._spent, (since, tokens))
            self._spent_sum += tokens
        for period in _periods(limit, day):
            self.use(period, tokens)

    def use(self, period: str, tokens: int) -> None:
        """A day, or a month."""
        self.used[period] = self.used.get(period, 0) + tokens
        others = sorted(e for e in self.used if len(e) == len(period) and e != period)
        for old in others[: 1 - KEPT_PERIODS]:
            del self.used[old]

    # What is left -----------------------------------------------------------------------------

    def requests_reset(self, now: float) -> float:
        """Seconds until none of its requests counts any more, if none comes."""
        if not self._requests:
            return 0.0
        return still_counts(next(reversed(self._requests.values())), now)

    def tokens_reset(self, now: float) -> float:
        """The same of the minute's tokens; of those under way nobody knows their end."""
        if self.held:
            return WINDOW_SECONDS
        return still_counts(self._spent[-1][0], now) if self._spent else 0.0

    def held_on(self, period: str) -> int:
        """Tokens that those under way have reserved of a day's or a month's."""
        return self._held_on.get(period, 0)

    def requests_left(self, limit: Limit, now: float) -> Left | None:
        if limit.requests is None:
            return None
        left = max(0, limit.requests - len(self._requests))
        return Left(limit.requests, left, self.requests_reset(now))

    def tokens_left(self, limit: Limit, moment: Moment) -> list[Left]:
        """Of the minute, of the day, of the month, as far as the row limits them."""
        found = []
        if limit.tokens is not None:
            found.append(_left(limit.tokens, self.tokens, self.tokens_reset(moment.now)))
        budgets = (
            (limit.day, moment.day, moment.until_next_day),
            (limit.month, month_of(moment.day), moment.until_next_month),
        )
        for most, period, seconds in budgets:
            if most is not None:
                used = self.used.get(period, 0) + self.held_on(period)
                found.append(_left(most, used, seconds))
        return found


def _left(most: int, used: int, seconds: float) -> Left:
    return Left(most, max(0, most - used), seconds)


def _periods(limit: Limit, day: str) -> tuple[str, ...]:
    """In which its tokens count: both, as soon as the row limits one."""
    return (day, month_of(day)) if limit.has_budget else ()
