"""The host: its main memory as a device, bounded by the cgroups that we run in."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

import psutil

from scheduler.core.sizes import HOST, DeviceReading

from .cgroup import PROC, Cgroup, Level, cgroups_of
from .device import Clock, Device, Kept, as_last_seen, plausible

_TAKEN = ("AnonPages", "Shmem", "Hugetlb", "SUnreclaim", "KernelStack", "PageTables", "Percpu")
_OURS = ("RssAnon", "RssShmem")


class Host:
    """The machine and each cgroup around us are bounds of the same form (`Level`): the lowest limit
    is the total, the least free is free.

    `foreign` is what cannot be taken from processes that are not ours. It is not summed up over
    them (a thousand files in /proc, each second): the kernel has the sums of anonymous and shared
    memory for the machine and for each cgroup, and of these our children's own are taken away.
    Pages of files are in neither, so mapped weights never count here. Exact but for pages that two
    of our children share. A bound that is not the lowest counts with what it lacks for it: a full
    machine around a small cgroup is felt. Swap counts nowhere.
    """

    def __init__(self, proc: Path = PROC, clock: Clock = time.monotonic) -> None:
        self._proc = proc
        self._cgroups: tuple[Cgroup, ...] | None = None
        self._kept: Kept[Device] = Kept("the host", clock)

    def read(self, ours: Collection[int]) -> tuple[Device, ...]:
        """`ours`: our children with their descendants. Empty only until it was read once."""
        try:
            self._kept.good(self._device(ours))
        except (OSError, ValueError, KeyError) as failure:
            self._cgroups = None  # looked for anew: we may have been moved
            self._kept.bad("its memory cannot be read", str(failure))
        device = as_last_seen(self._kept)
        return () if device is None else (device,)

    def _device(self, ours: Collection[int]) -> Device:
        if self._cgroups is None:
            self._cgroups = cgroups_of(self._proc / "self")
        bounds = (cgroup.level() for cgroup in self._cgroups)
        levels = [self._machine(), *(level for level in bounds if level is not None)]
        processes = tuple((pid, self._own(pid)) for pid in sorted(ours))
        own = sum(size for _, size in processes)
        total = min(level.limit for level in levels)
        free = min(total, *(level.free for level in levels))
        foreign = max(level.taken - own - (level.limit - total) for level in levels)
        reading = DeviceReading(HOST, total, free, foreign=min(total, max(0, foreign)))
        busy = round(psutil.cpu_percent())
        return Device(reading, "main memory", str(HOST), utilisation=busy, processes=processes)

    def _machine(self) -> Level:
        said = _kilobytes((self._proc / "meminfo").read_text())
        total, free = said["MemTotal"], said["MemAvailable"]
        if not plausible(total, free):
            raise ValueError(f"{free} of {total} bytes are free")
        return Level(total, free, sum(said.get(name, 0) for name in _TAKEN))

    def _own(self, pid: int) -> int:
        try:
            said = _kilobytes((self._proc / str(pid) / "status").read_text())
        except (FileNotFoundError, ProcessLookupError):
            return 0  # it has exited: the kernel counts it no more
        return sum(said.get(name, 0) for name in _OURS)


def _kilobytes(text: str) -> dict[str, int]:
    """In bytes: of /proc/meminfo and /proc/<pid>/status, the lines that are sizes."""
    rows = (line.split() for line in text.splitlines())
    return {
        row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"
    }
