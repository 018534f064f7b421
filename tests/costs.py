"""What a lane's tests cost (scripts/tests.py loads it): at its end the ten that took longest, with
the CPU seconds of every process that they started.

What several tests share counts for the one that comes first. Of an orphan that outlives its parent
nothing is seen.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SHOWN = int(os.environ.get("CORRAL_TESTS_SHOWN", "10"))
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one test's set-up, call or teardown, in seconds."""

    test: str
    phase: str
    wall: float
    cpu: float


def cpu_seconds() -> float:
    """Of this process, of the children it has waited for, and of the living, with theirs."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(who) for who in whose]
    return sum(each.ru_utime + each.ru_stime for each in used) + _of_the_living(os.getpid())


def _of_the_living(parent: int) -> float:
    total = 0.0
    for child in _children(parent):
        try:
            stat = Path(f"/proc/{child}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has gone meanwhile
        ticks = stat.rpartition(")")[2].split()[11:15]  # its own, and those it has waited for
        total += sum(map(int, ticks)) / TICKS + _of_the_living(child)
    return total


def _children(parent: int) -> Iterator[int]:
    for thread in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            yield from map(int, thread.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue


class Costs:
    def __init__(self) -> None:
        self._costs: list[Cost] = []

    @contextmanager
    def _of(self, test: str, phase: str) -> Iterator[None]:
        begun, used = time.monotonic(), cpu_seconds()
        try:
            yield
        finally:
            took = time.monotonic() - begun
            self._costs.append(Cost(test, phase, took, cpu_seconds() - used))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with self._of(item.nodeid, "setup"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self._of(item.nodeid, "call"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        with self._of(item.nodeid, "teardown"):
            return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"slowest {SHOWN} of {cpu_seconds():.0f} s of CPU")
        for cost in sorted(self._costs, key=lambda cost: -cost.wall)[:SHOWN]:
            terminalreporter.write_line(
                f"{cost.wall:7.1f} s {cost.cpu:7.1f} s of CPU  {cost.phase:<8} {cost.test}"
            )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(), "costs")
