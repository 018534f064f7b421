"""Which processes are ours: the children, and what they have started."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

PROC = Path("/proc")


def with_descendants(pids: Collection[int], proc: Path = PROC) -> frozenset[int]:
    """Down from each pid by what the kernel lists for it, so that other processes cost nothing,
    however many there are. Where the kernel has no such lists, the pids alone."""
    found: set[int] = set()
    todo = list(pids)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(_children(proc / str(pid)))
    return frozenset(found)


def _children(process: Path) -> Iterator[int]:
    try:
        for thread in (process / "task").iterdir():
            yield from map(int, (thread / "children").read_text().split())
    except OSError:
        return  # it has gone meanwhile
