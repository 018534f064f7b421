"""Whether it was the kernel that killed a child, for want of memory.

From outside a SIGKILL is a SIGKILL. But the kernel counts in each memory cgroup how many of its
processes it has killed for memory (`oom_kill`), and children are in the same cgroup as we are: a
child that SIGKILL ended while that count grew was one of them. It can be read without root and in
containers. Where there is no such count (no cgroups; the root cgroup has none) nothing is known,
and nothing is said. A machine-wide count (/proc/vmstat) would blame a child for a stranger.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from .memory_cgroups import memory_cgroups

logger = logging.getLogger(__name__)

_COUNTERS = {1: ("memory.oom_control",), 2: ("memory.events.local", "memory.events")}
"""By the cgroup's version; .local since Linux 5.2."""

SEEN_WITHIN_SECONDS = 30.0
"""A process with much memory takes a while to be gone after it was killed."""


class OomKills:
    """`look()` now and then; `claim()` when SIGKILL has ended a child and it was not ours."""

    def __init__(self, counter: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._counter = counter
        self._clock = clock
        self._counted = self._read()
        self._unclaimed: deque[float] = deque()

    def look(self) -> None:
        """Kills that are seen long before a child's end are not that child's."""
        now, counted = self._clock(), self._read()
        if counted is not None and self._counted is not None:
            self._unclaimed.extend([now] * (counted - self._counted))
        self._counted = counted
        while self._unclaimed and self._unclaimed[0] < now - SEEN_WITHIN_SECONDS:
            self._unclaimed.popleft()

    def claim(self) -> bool:
        """Whether the kernel has killed a process of ours lately that no other child was."""
        self.look()
        if not self._unclaimed:
            return False
        self._unclaimed.popleft()
        return True

    def _read(self) -> int | None:
        if self._counter is None:
            return None
        try:
            for line in self._counter.read_text().splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill":
                    return int(number)
        except (OSError, ValueError) as failure:
            logger.warning("the kernel's kills cannot be counted any more: %s", failure)
            self._counter = None
        return None


def oom_kill_counter(proc: Path = Path("/proc/self")) -> Path | None:
    """The file that counts this process's cgroup's kills; None where there is none."""
    for version, _, folder in memory_cgroups(proc):
        for name in _COUNTERS[version]:
            if _counts_kills(folder / name):
                return folder / name
    return None


def _counts_kills(file: Path) -> bool:
    try:
        return any(line.startswith("oom_kill ") for line in file.read_text().splitlines())
    except OSError:
        return False
