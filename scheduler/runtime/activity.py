"""Whether something has changed that no preset's state tells: leases, waiters, free memory, what is
not tried for a while because its load failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .owner import Owner

LOOK_EVERY_SECONDS = 1.0
WORTH_TELLING = 64 << 20
"""Bytes. Every program that runs changes less all the time."""


class Activity:
    """Asked after each step, it looks once a second, so that a thousand requests are one change."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._looked_at = float("-inf")
        self._used: object = None
        self._free: dict[str, int] = {}

    def take_in(self, now: float) -> None:
        """What is now is known."""
        self._looked_at = now
        self._used, self._free = self._in_use(now), self._free_now()

    def changed(self, now: float) -> bool:
        """Since the last time that it was true."""
        if now - self._looked_at < LOOK_EVERY_SECONDS:
            return False
        self._looked_at = now
        used, free = self._in_use(now), self._free_now()
        if used == self._used and not self._differs(free):
            return False
        self._used, self._free = used, free
        return True

    def _in_use(self, now: float) -> object:
        planner = self._owner.planner
        each = (*planner.instances.values(), *planner.remotes.values())
        leases = tuple((i.id, len(i.leases), len(i.abandoned)) for i in each)
        backing_off = {name for name, each in planner.failures.items() if now < each.until}
        return leases, self._owner.waiting.newest, backing_off

    def _free_now(self) -> dict[str, int]:
        return {each.reading.device: each.reading.free for each in self._owner.memory.devices}

    def _differs(self, free: dict[str, int]) -> bool:
        return free.keys() != self._free.keys() or any(
            abs(size - self._free[device]) >= WORTH_TELLING for device, size in free.items()
        )
