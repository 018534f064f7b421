"""Figures that only grow: how often something happened, and how long it took. Pure.

Each process counts for itself and hands over what has come since; the scheduler adds it all up, so
that whoever asks gets one truth, however many processes serve.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

SECONDS = tuple(0.001 * 2**power for power in range(20))
"""Upper bounds of the ranges by which durations are told: 1 ms to 524 s, each twice the last."""
MOST_SERIES = 20_000
"""Of a tally. Who makes names without end gets no more memory than this: what is new then counts
under OTHER."""
OTHER = "(other)"

Key = tuple[str, tuple[str, ...]]
Name = Annotated[str, msgspec.Meta(max_length=64)]
Labels = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=300)], ...], msgspec.Meta(max_length=8)
]


class Count(msgspec.Struct, frozen=True, array_like=True):
    name: Name
    labels: Labels
    value: float


class Spread(msgspec.Struct, frozen=True, array_like=True):
    """How many durations fell into each range of SECONDS, the last one without a bound; and their
    sum in seconds."""

    name: Name
    labels: Labels
    ranges: Annotated[list[int], msgspec.Meta(max_length=64)]
    total: float


class Tallied(msgspec.Struct, frozen=True):
    counts: list[Count] = []
    spreads: list[Spread] = []

    def parts(self, most: int) -> Iterator[Tallied]:
        """The same in portions of at most so many figures."""
        for begin in range(0, len(self.counts), most):
            yield Tallied(counts=self.counts[begin : begin + most])
        for begin in range(0, len(self.spreads), most):
            yield Tallied(spreads=self.spreads[begin : begin + most])


class Tally:
    def __init__(self, most_series: int = MOST_SERIES) -> None:
        self._most_series = most_series
        self._counts: dict[Key, float] = {}
        self._ranges: dict[Key, list[int]] = {}
        self._totals: dict[Key, float] = {}

    def __bool__(self) -> bool:
        return bool(self._counts or self._ranges)

    def count(self, name: str, labels: tuple[str, ...], by: float = 1.0) -> None:
        key = (name, labels)
        if key not in self._counts:
            key = self._key(self._counts, name, labels)
        self._counts[key] = self._counts.get(key, 0.0) + by

    def spread(self, name: str, labels: tuple[str, ...], seconds: float) -> None:
        key = (name, labels)
        ranges = self._ranges.get(key)
        if ranges is None:
            key = self._key(self._ranges, name, labels)
            ranges = self._of(key)
        ranges[bisect_left(SECONDS, seconds)] += 1
        self._totals[key] += max(0.0, seconds)

    def add(self, more: Tallied) -> None:
        """What another tally has taken. Ranges of another number than ours say nothing."""
        for count in more.counts:
            self.count(count.name, count.labels, count.value)
        for spread in more.spreads:
            if len(spread.ranges) != len(SECONDS) + 1:
                continue
            key = self._key(self._ranges, spread.name, spread.labels)
            ours = self._of(key)
            for at, number in enumerate(spread.ranges):
                ours[at] += number
            self._totals[key] += spread.total

    def whole(self) -> Tallied:
        return Tallied(
            [Count(*key, value) for key, value in self._counts.items()],
            [Spread(*key, list(r), self._totals[key]) for key, r in self._ranges.items()],
        )

    def take(self) -> Tallied:
        """All of it; it begins anew."""
        taken = self.whole()
        self._counts, self._ranges, self._totals = {}, {}, {}
        return taken

    def _of(self, key: Key) -> list[int]:
        ranges = self._ranges.get(key)
        if ranges is None:
            ranges = self._ranges[key] = [0] * (len(SECONDS) + 1)
            self._totals[key] = 0.0
        return ranges

    def _key(self, known: Iterable[Key], name: str, labels: tuple[str, ...]) -> Key:
        key = (name, labels)
        if key in known or len(self._counts) + len(self._ranges) < self._most_series:
            return key
        return name, tuple(OTHER for _ in labels)
