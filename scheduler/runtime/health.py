"""Asks one child, again and again, whether it still answers, and whether it gets on.

What counts is the child's silence, not our own delay. A question's time is therefore counted in
slices, and a slice is over only when our loop has turned: however long we (or the machine) stood
still, that was one slice, and an answer that came meanwhile is read in the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.conf import SchedulerConfig

SLICES = 20


@dataclass(frozen=True, slots=True)
class HealthRule:
    """A question every `every_seconds`, each with as much time for its answer; `tries` of them
    without one in a row are a hang. 0 seconds: nothing is asked."""

    every_seconds: float = 5.0
    tries: int = 3


@dataclass(frozen=True, slots=True)
class HealthRules:
    """`alive`: whether a child answers anything. `steps`: whether the computation of one that works
    gets on. That is asked of it by what it answers between two steps; while it computes, the first
    is answered whatever it computes."""

    alive: HealthRule = HealthRule()
    steps: HealthRule = HealthRule(every_seconds=0.0)


STEP_TRIES = 5


def rules_of(config: SchedulerConfig) -> HealthRules:
    return HealthRules(
        HealthRule(config.health_every_seconds, config.health_tries),
        HealthRule(config.step_timeout_seconds / STEP_TRIES, STEP_TRIES),
    )


class HealthWatch:
    """`run()` is a task that goes on until it is cancelled.

    `ask` returns whether the child answered, None when it could not be asked for a reason of our
    own. `should_answer` tells whether it is in a state in which it does. `lines` counts what it has
    printed: that too is a sign of life. `hangs` is called when it is found silent, and again after
    as many tries when it still is.
    """

    def __init__(
        self,
        rule: HealthRule,
        *,
        ask: Callable[[], Awaitable[bool | None]],
        should_answer: Callable[[], bool],
        lines: Callable[[], int],
        hangs: Callable[[], None],
    ) -> None:
        self._rule = rule
        self._ask = ask
        self._should_answer = should_answer
        self._lines = lines
        self._hangs = hangs

    async def run(self) -> None:
        every = self._rule.every_seconds
        if every <= 0:
            return
        clock = asyncio.get_running_loop().time
        silent = 0
        await asyncio.sleep(every)
        while True:
            asked_at = clock()
            answered = await self._answered() if self._should_answer() else True
            if answered or not self._should_answer():
                silent = 0
            elif answered is False:
                silent += 1
            if silent >= self._rule.tries:
                silent = 0
                self._hangs()
            await asyncio.sleep(max(0.0, asked_at + every - clock()))

    async def _answered(self) -> bool | None:
        lines = self._lines()
        asking = asyncio.ensure_future(self._ask())
        try:
            for _ in range(SLICES):
                await asyncio.wait({asking}, timeout=self._rule.every_seconds / SLICES)
                if asking.done():
                    return asking.result() or (True if self._lines() > lines else asking.result())
                if self._lines() > lines:
                    return True
            return False
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
