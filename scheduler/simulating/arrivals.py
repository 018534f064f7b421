"""Streams of requests: when they come, for which model, from whom, and how long their answers
are.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from itertools import count as count_from
from random import Random

from scheduler.core.values import PresetName

from .workload import FOREVER, Arrival

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Answers:
    """Tokens of a request: lognormal, by their median and spread, within bounds; some answers are
    long ones."""

    read: float = 400.0
    short: float = 120.0
    long: float = 1200.0
    long_share: float = 0.1
    spread: float = 0.6
    most: int = 4096

    def draw(self, random: Random) -> tuple[int, int]:
        median = self.long if random.random() < self.long_share else self.short
        gauss, spread, most = random.gauss, self.spread, self.most
        read = int(self.read * math.exp(gauss(0.0, spread)))
        answered = int(median * math.exp(gauss(0.0, spread)))
        return max(1, min(most, read)), max(1, min(most, answered))


SHORT = Answers(long_share=0.0)
SHORT_AND_LONG = Answers()


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second over time: a mean, a daily swing of 0 to 1 around it, and bursts, which
    begin at random, `burst_every` seconds apart on average, and bring so many requests at once."""

    mean: float
    swing: float = 0.0
    burst_every: float = FOREVER
    burst_size: int = 0
    day: float = DAY

    def at(self, when: float) -> float:
        return self.mean * (1.0 - self.swing * math.cos(2.0 * math.pi * when / self.day))


def zipf(models: int, exponent: float = 1.0) -> list[float]:
    """How often each of so many models is asked for, the first most often; not normalised."""
    return [1.0 / rank**exponent for rank in range(1, models + 1)]


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: how many turns it has on average (geometric), and what lies between one
    turn's request and the next one's (lognormal, by its median and spread), in seconds."""

    turns: float
    pause: float
    spread: float = 0.8

    def times(self, begin: float, random: Random) -> Iterator[float]:
        while True:
            yield begin
            if random.random() * self.turns < 1.0:
                return
            begin += self.pause * math.exp(random.gauss(0.0, self.spread))


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of some tenants for some models; a burst is of one tenant for one model, and so is
    a talk, of which each request that comes by itself is then the first turn."""

    rate: Rate
    models: Sequence[PresetName]
    popularity: Sequence[float]
    tenants: Sequence[int] = (0,)
    demand: Sequence[float] = (1.0,)  # how much of it each of the tenants asks
    answers: Answers = SHORT_AND_LONG
    patience: float = FOREVER
    limit: float = FOREVER
    streamed_share: float = 1.0
    talk: Talk | None = None

    def arrivals(self, count: int, seed: str) -> Iterator[Arrival]:
        """So many requests, in the order of time."""
        random = Random(seed)
        asked = self._asked(random) if self.talk is None else self._talks(self.talk, random)
        return islice(asked, count)

    def _talks(self, talk: Talk, random: Random) -> Iterator[Arrival]:
        """Each conversation's turns, in among those of the others."""
        later: list[tuple[float, int, Arrival]] = []
        numbers = count_from(1)
        for first in self._asked(random):
            while later and later[0][0] <= first.at:
                yield heapq.heappop(later)[2]
            for at in talk.times(first.at, random):
                read, answered = self.answers.draw(random)
                turn = first._replace(at=at, read=read, answered=answered)
                heapq.heappush(later, (at, next(numbers), turn))

    def _asked(self, random: Random) -> Iterator[Arrival]:
        models, tenants = list(self.models), list(self.tenants)
        by_model = list(accumulate(self.popularity))
        by_tenant = list(accumulate(self.demand))
        for at, size in self._times(random):
            model = models[bisect(by_model, random.random() * by_model[-1], 0, len(models) - 1)]
            tenant = tenants[
                bisect(by_tenant, random.random() * by_tenant[-1], 0, len(tenants) - 1)
            ]
            for _ in range(size):
                read, answered = self.answers.draw(random)
                streamed = self.streamed_share >= 1.0 or random.random() < self.streamed_share
                yield Arrival(
                    at, model, tenant, read, answered, self.patience, self.limit, streamed
                )

    def _times(self, random: Random) -> Iterator[tuple[float, int]]:
        """Poisson by thinning where the rate swings; with each, how many come at once."""
        rate, now = self.rate, 0.0
        top = rate.mean * (1.0 + rate.swing)
        burst = random.expovariate(1.0 / rate.burst_every) if rate.burst_size else FOREVER
        while True:
            now += random.expovariate(top)
            while burst <= now:
                yield burst, rate.burst_size
                burst += random.expovariate(1.0 / rate.burst_every)
            if not rate.swing or random.random() * top < rate.at(now):
                yield now, 1
