"""Keeps the whole history of who came in, and says by brute force what limits allow."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.limit_values import WINDOW_SECONDS, Limit, Moment, month_of


@dataclass
class CameIn:
    """`began` and `ended` are monotonic; `beyond` was used over what it had reserved, and is known
    since it ended."""

    id: str
    limits: tuple[Limit, ...]
    reserved: int
    began: float
    day: str
    ended: float | None = None
    used: int = 0
    beyond: int = 0
    counts_as_request: bool = True


class Referee:
    def __init__(self) -> None:
        self.history: list[CameIn] = []
        self.under_way: dict[int, CameIn] = {}
        self.between_tries: dict[str, CameIn] = {}

    def of(self, counter: str) -> list[CameIn]:
        return [each for each in self.history if counter in {one.counter for one in each.limits}]

    def requests(self, counter: str, now: float) -> int:
        return sum(
            each.counts_as_request and each.began + WINDOW_SECONDS - now > 0
            for each in self.of(counter)
        )

    def concurrent(self, counter: str) -> int:
        return sum(each.ended is None for each in self.of(counter))

    def tokens(self, counter: str, now: float) -> int:
        total = 0
        for each in self.of(counter):
            if each.ended is None:
                total += each.reserved
                continue
            total += each.used if each.began + WINDOW_SECONDS - now > 0 else 0
            total += each.beyond if each.ended + WINDOW_SECONDS - now > 0 else 0
        return total

    def in_period(self, counter: str, period: str) -> int:
        return sum(
            each.reserved if each.ended is None else each.used + each.beyond
            for each in self.of(counter)
            if period in (each.day, month_of(each.day))
        )

    def allows(
        self, limits: tuple[Limit, ...], tokens: int, moment: Moment, *, requests: int = 1
    ) -> bool:
        return all(self._allows(limit, tokens, moment, requests) for limit in limits)

    def _allows(self, limit: Limit, tokens: int, moment: Moment, requests: int) -> bool:
        counter, month = limit.counter, month_of(moment.day)
        came_in = self.requests(counter, moment.now) if requests else 0
        checks = (
            (limit.requests, came_in, requests),
            (limit.concurrent, self.concurrent(counter), 1),
            (limit.tokens, self.tokens(counter, moment.now), tokens),
            (limit.day, self.in_period(counter, moment.day), tokens),
            (limit.month, self.in_period(counter, month), tokens),
        )
        return all(
            most is None or (most > 0 and used + asked <= most) for most, used, asked in checks
        )
