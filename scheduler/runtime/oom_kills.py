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
from pathlib import Path, PurePosixPath

logger = logging.getLogger(__name__)

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
    try:
        groups = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    for group in groups:
        number, controllers, path = group.split(":", 2)
        if number == "0":
            # cgroup v2; .local since Linux 5.2
            names: tuple[str, ...] = ("memory.events.local", "memory.events")
            folders = _folders(mounts, "cgroup2", "", path)
        elif "memory" in controllers.split(","):
            names = ("memory.oom_control",)
            folders = _folders(mounts, "cgroup", "memory", path)
        else:
            continue
        for file in (folder / name for folder in folders for name in names):
            if _counts_kills(file):
                return file
    return None


def _folders(mounts: list[str], kind: str, controller: str, path: str) -> list[Path]:
    """Where the cgroup `path` is to be seen. A container may see a part of the tree only, mounted
    from `root` on."""
    found = []
    for mount in mounts:
        fields, _, after = mount.partition(" - ")
        root, point = fields.split()[3:5]
        file_system, _, options = after.split(" ", 2)
        if file_system != kind or (controller and controller not in options.split(",")):
            continue
        inside = PurePosixPath(path)
        if inside.is_relative_to(root):
            found.append(Path(point, inside.relative_to(root)))
    return found


def _counts_kills(file: Path) -> bool:
    try:
        return any(line.startswith("oom_kill ") for line in file.read_text().splitlines())
    except OSError:
        return False
