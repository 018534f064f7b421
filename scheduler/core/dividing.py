"""Which layers go to which device: each gets one run of them, in the engine's order.

`ends[i]` is what the first `i` layers take, so a run from `a` up to `b` takes `ends[b] - ends[a]`.
Only layers from some `start` on are divided; `rooms` is how many bytes each device has for them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Copies:
    """A device that takes its layers in over a connection holds the largest of their tensors twice
    for a moment, before there are any caches. `weights[i]` is what the first `i` layers weigh,
    `largest` each one's largest tensor, and `limits` what each device may hold then; None: it
    holds nothing twice."""

    weights: Sequence[int]
    largest: Sequence[int]
    limits: Sequence[int | None]

    def earliest(self, index: int, begin: int, end: int) -> int:
        """The same as `begin`, or later: where a run up to `end` may begin for its copies."""
        if self.limits[index] is None:
            return begin
        runs = range(begin, end)
        return begin + bisect_left(runs, True, key=lambda at: self._fit(index, at, end))

    def latest(self, index: int, begin: int, end: int) -> int:
        """The same as `end`, or earlier."""
        if self.limits[index] is None:
            return end
        runs = range(begin + 1, end + 1)
        return begin + bisect_left(runs, True, key=lambda at: not self._fit(index, begin, at))

    def _fit(self, index: int, begin: int, end: int) -> bool:
        limit = self.limits[index]
        assert limit is not None
        left = limit - (self.weights[end] - self.weights[begin])
        return left >= 0 and max(self.largest[begin:end]) <= left


def most_layers(ends: Sequence[int], rooms: Sequence[int], first_fixed: int) -> int:
    """How many layers, counted from the last, fit on the devices; the first that has one holds
    `first_fixed` besides."""
    last = len(ends) - 1
    begin = behind = last
    for room in reversed(rooms):
        begin = min(begin, _first_run(ends, behind, room - first_fixed))
        behind = _earliest(ends, behind, room)
    return last - begin


def divide(
    ends: Sequence[int],
    start: int,
    rooms: Sequence[int],
    shares: Sequence[int],
    copies: Copies | None = None,
) -> tuple[int, ...] | None:
    """How many of the layers from `start` on each device gets: in proportion to `shares`, shifted
    so that each has room for its own, and the first has one. None: they do not fit so."""
    last = len(ends) - 1
    # Where each run must end at the earliest, that those behind it can take the rest.
    least_ends = [last]
    for index in range(len(rooms) - 1, 0, -1):
        begin, end = _earliest(ends, least_ends[-1], rooms[index]), least_ends[-1]
        least_ends.append(copies.earliest(index, begin, end) if copies else begin)
    least_ends.reverse()

    counts: list[int] = []
    begin, passed, total = start, 0, sum(shares) or 1
    for index, (room, share, least) in enumerate(zip(rooms, shares, least_ends, strict=True)):
        passed += share
        least = max(least, begin if counts else begin + 1)
        most = _latest(ends, begin, room)
        most = copies.latest(index, begin, most) if copies else most
        if most < least:
            return None
        in_proportion = start + ((last - start) * passed + total // 2) // total
        end = min(max(in_proportion, least), most)
        counts.append(end - begin)
        begin = end
    return tuple(counts)


def sets_of_devices(shares: Sequence[int], fewest: int) -> Iterator[Sequence[int]]:
    """Indexes of devices, in order: those with the largest shares, `fewest` of them, then one more
    each time. Then all from each device on: where the first of all cannot hold what the first one
    holds besides, another may be the first."""
    largest = sorted(range(len(shares)), key=lambda index: -shares[index])
    for count in range(fewest, len(shares) + 1):
        yield sorted(largest[:count])
    for first in range(1, len(shares) - fewest + 1):
        yield range(first, len(shares))


def _first_run(ends: Sequence[int], behind: int, room: int) -> int:
    """Where the first run may begin at the earliest, with at least one layer, when the devices
    behind it can take all from `behind` on. It may have to leave uneven layers to the host."""
    begin = _earliest(ends, behind, room)
    if begin < behind:
        return begin
    last = len(ends) - 1
    return next((at for at in range(behind, last) if ends[at + 1] - ends[at] <= room), last)


def _earliest(ends: Sequence[int], end: int, room: int) -> int:
    """Where a run up to `end` may begin at the earliest."""
    return min(end, bisect_left(ends, ends[end] - room))


def _latest(ends: Sequence[int], begin: int, room: int) -> int:
    """Where a run from `begin` on may end at the latest."""
    return max(begin, bisect_right(ends, ends[begin] + room) - 1)
