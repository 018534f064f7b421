"""The memory cgroups that bound this process: its own, and those around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.runtime.memory_cgroups import memory_cgroups

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Level:
    """One bound on memory, in bytes: how much it allows, how much of that can be had at once, and
    what all within it hold that cannot be taken from them."""

    limit: int
    free: int
    taken: int


@dataclass(frozen=True, slots=True)
class _Version:
    """`limits`: the lowest counts. `reclaimable`: pages of files, clean or soon written, that the
    kernel drops before it refuses memory (both lists: it ages the active one under pressure), and
    its own caches. The total of the cache would be wrong: it has shared memory in it, which cannot
    be dropped without swap. `taken`: anonymous and shared memory, and the kernel's own."""

    limits: tuple[str, ...]
    usage: str
    reclaimable: tuple[str, ...]
    taken: tuple[str, ...]


_V2 = _Version(
    # over memory.high it is throttled until it hardly runs: nothing should be put there
    ("memory.max", "memory.high"),
    "memory.current",
    ("inactive_file", "active_file", "slab_reclaimable"),
    ("anon", "shmem", "slab_unreclaimable", "kernel_stack", "pagetables", "percpu", "sock"),
)
_V1 = _Version(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
    ("total_rss", "total_shmem"),
)


@dataclass(frozen=True, slots=True)
class Cgroup:
    folder: Path
    version: _Version

    def level(self) -> Level | None:
        """None where nothing is limited. Raises OSError or ValueError."""
        limits = [self._limit(name) for name in self.version.limits]
        limit = min((found for found in limits if found is not None), default=None)
        if limit is None:
            return None
        usage = int((self.folder / self.version.usage).read_text())
        stat = _table((self.folder / "memory.stat").read_text())
        reclaimable = sum(stat.get(name, 0) for name in self.version.reclaimable)
        taken = sum(stat.get(name, 0) for name in self.version.taken)
        return Level(limit, max(0, min(limit, limit - usage + reclaimable)), taken)

    def _limit(self, name: str) -> int | None:
        said = (self.folder / name).read_text().strip()
        return None if said == "max" else int(said)


def cgroups_of(process: Path = PROC / "self") -> tuple[Cgroup, ...]:
    """From the process's own up to the outermost that can be seen; a limit of any of them holds."""
    found = [
        Cgroup(each, _V1 if version == 1 else _V2)
        for version, point, folder in memory_cgroups(process)
        for each in (folder, *(up for up in folder.parents if up.is_relative_to(point)))
    ]
    return tuple(one for one in found if (one.folder / one.version.usage).exists())


def _table(text: str) -> Mapping[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}
