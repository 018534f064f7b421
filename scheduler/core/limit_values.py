"""The nouns of limits (limits.py), as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum, auto

WINDOW_SECONDS = 60.0
"""Of "a minute": any sixty seconds, not those of a clock's minute."""


def still_counts(since: float, now: float) -> float:
    """Seconds for which what came in then is still in the window; 0 or less: it no longer is. Asked
    in one way alone, or rounding would have what is to wait for 0 seconds."""
    return since + WINDOW_SECONDS - now


class Measure(StrEnum):
    """What a limit is a limit of."""

    REQUESTS = auto()  # that came in during a minute
    TOKENS = auto()  # of those that came in during a minute, and of those under way
    CONCURRENT = auto()  # that wait or are answered
    DAY = auto()  # tokens of those that came in on a day (UTC)
    MONTH = auto()


@dataclass(frozen=True, slots=True)
class Limit:
    """What one row allows: a key, a team, or everybody together, and a model where it names one.
    `counter` is what it is counted by, whatever becomes of its figures. None limits nothing; 0
    allows nothing."""

    counter: str
    whose: str = "key"
    model: str = ""
    requests: int | None = None
    tokens: int | None = None
    concurrent: int | None = None
    day: int | None = None
    month: int | None = None

    @property
    def has_budget(self) -> bool:
        return self.day is not None or self.month is not None


@dataclass(frozen=True, slots=True)
class Moment:
    """`now` is monotonic seconds: minutes are measured by it. `wall` is seconds since 1970: which
    day and month it is."""

    now: float
    wall: float

    @property
    def day(self) -> str:
        """As in 2026-11-30, UTC."""
        return self._date.strftime("%Y-%m-%d")

    @property
    def until_next_day(self) -> float:
        tomorrow = self._date.replace(hour=0, minute=0, second=0, microsecond=0)
        return (tomorrow + timedelta(days=1) - self._date).total_seconds()

    @property
    def until_next_month(self) -> float:
        first = self._date.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        next_first = (first + timedelta(days=32)).replace(day=1)
        return (next_first - self._date).total_seconds()

    @property
    def _date(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)


def month_of(day: str) -> str:
    return day[:7]


@dataclass(frozen=True, slots=True)
class Short:
    """Why a request is not let in. `used` counts what is under way (`held`) as well. After
    `seconds` it may come in, if nobody else does; None: never, for it alone asks for more than the
    limit allows. `under_way`: only what others hold stands in its way, and nobody knows for how
    long; `seconds` is a guess then."""

    limit: Limit
    measure: Measure
    most: int
    used: int
    asked: int
    seconds: float | None
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """How much of a limit is left, and after how many seconds all of it will be again."""

    most: int
    left: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Charged:
    """Tokens that count in budgets from now on: to be kept, for they outlive the process."""

    day: str
    tokens: int
    counters: tuple[str, ...]
