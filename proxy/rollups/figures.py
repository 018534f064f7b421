"""What is summed up of usage records, without a database: whole numbers only, so that a sum that is
made anew equals the one that grew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from proxy.rollups.histogram import Buckets, bucket_of

TOKENS = ("read", "cached", "answered")
COUNTS = ("requests", "failed", "refused", "estimated", *TOKENS)
TIMES = ("queue_wait", "load_wait", "first_token", "duration")
"""Of a record in seconds, of a sum in microseconds."""
NUMBERS = (*COUNTS, *TIMES)
MICROSECONDS = 1_000_000
CLIENT_ERROR, SERVER_ERROR = 400, 500
CLIENT_GONE = "client_gone"


class Recorded(Protocol):
    """What is summed up: a line of a journal or a row of the database, which name it alike."""

    team_id: int
    team: str
    key: str
    user: str
    preset: str
    final: bool
    status: int
    code: str
    charged: bool
    estimated: bool
    upstream: bool


class Grain(IntEnum):
    """What a row is a sum of. The coarse ones spare a page that asks for all the adding up."""

    EACH = 0  # a team's key and a preset
    KEY = 1  # a team's key
    TEAM = 2
    PRESET = 3
    ALL = 4


class Of(NamedTuple):
    """Whose figures they are; what a grain does not tell apart is empty."""

    grain: int
    team_id: int = 0
    team: str = ""
    key: str = ""
    user: str = ""
    preset: str = ""


@dataclass(slots=True)
class Figures:
    """`numbers` by the names of NUMBERS, `histograms` by those of TIMES, `codes` by error code."""

    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NUMBERS, 0))
    histograms: dict[str, Buckets] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)

    def add(self, other: Figures) -> None:
        _add(self.numbers, other.numbers)
        _add(self.codes, other.codes)
        for name, buckets in other.histograms.items():
            _add(self.histograms.setdefault(name, {}), buckets)

    def add_record(self, record: Recorded) -> None:
        """A try that another one follows counts as no request; tokens count that are charged."""
        numbers = self.numbers
        if record.final:
            numbers["requests"] += 1
            outcome, code = _outcome(record)
            if outcome:
                numbers[outcome] += 1
            if code:
                self.codes[code] = self.codes.get(code, 0) + 1
        if record.charged:
            numbers["estimated"] += record.estimated
            for name in TOKENS:
                numbers[name] += getattr(record, name) or 0
        for name in TIMES:
            seconds = getattr(record, name)
            if seconds is not None:
                numbers[name] += max(0, round(seconds * MICROSECONDS))
                buckets = self.histograms.setdefault(name, {})
                bucket = bucket_of(seconds)
                buckets[bucket] = buckets.get(bucket, 0) + 1

    @classmethod
    def of_row(cls, row: Any) -> Figures:
        return cls(
            {name: getattr(row, name) for name in NUMBERS},
            read_histograms(row.histograms),
            dict(row.codes),
        )

    def columns(self) -> dict[str, Any]:
        """As a row holds them: the names of JSON's objects are texts."""
        histograms = {
            name: {str(bucket): count for bucket, count in sorted(buckets.items())}
            for name, buckets in self.histograms.items()
        }
        return {**self.numbers, "histograms": histograms, "codes": self.codes}


def read_histograms(stored: Mapping[str, Mapping[str, int]]) -> dict[str, Buckets]:
    return {
        name: {int(bucket): count for bucket, count in buckets.items()}
        for name, buckets in stored.items()
    }


def _add(total: dict[Any, int], more: Mapping[Any, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _outcome(record: Recorded) -> tuple[str, str]:
    """Which of COUNTS besides `requests`, and under which code. What an instance began and did not
    end well has failed, what got none was refused, and who left has got what they wanted."""
    code = record.code or ("" if record.status < CLIENT_ERROR else f"http_{record.status}")
    if not code or code == CLIENT_GONE:
        return "", code
    its_own = not record.code and record.status < SERVER_ERROR
    return ("failed" if record.upstream and not its_own else "refused"), code


# Which sums a record is part of -----------------------------------------------------------


def hour_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def day_of(at: datetime) -> datetime:
    return hour_of(at).replace(hour=0)


def of_record(record: Recorded) -> Of:
    """Of the finest grain."""
    return Of(Grain.EACH, record.team_id, record.team, record.key, record.user, record.preset)


def coarser(of: Of) -> tuple[Of, ...]:
    """What something of the finest grain is a part of."""
    return (
        of._replace(grain=Grain.KEY, preset=""),
        of._replace(grain=Grain.TEAM, key="", user="", preset=""),
        Of(Grain.PRESET, preset=of.preset),
        Of(Grain.ALL),
    )


Sums = dict[tuple[datetime, Of], Figures]


def sums_by_hour(records: Iterable[tuple[datetime, Recorded]]) -> Sums:
    """Of all grains; each record with the time at which its request began."""
    fine: Sums = {}
    for at, record in records:
        key = hour_of(at), of_record(record)
        figures = fine.get(key)
        if figures is None:
            figures = fine[key] = Figures()
        figures.add_record(record)
    total = dict(fine)
    for (start, of), figures in fine.items():
        for wider in coarser(of):
            total.setdefault((start, wider), Figures()).add(figures)
    return total


def sums_by_day(hours: Sums) -> Sums:
    total: Sums = {}
    for (start, of), figures in hours.items():
        total.setdefault((day_of(start), of), Figures()).add(figures)
    return total
