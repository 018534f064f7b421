"""One device as it was last seen: what the ledger counts, and what pages show beside it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from scheduler.core.sizes import DeviceId, DeviceReading

logger = logging.getLogger(__name__)

Clock = Callable[[], float]
T = TypeVar("T")

LARGEST = 1 << 50
"""Bytes. No device has a pebibyte; a driver that says so is broken."""

_KIND = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Device:
    """`kind` is the name without its number (CUDA, ROCm, Vulkan, RPC, Host). `utilisation` in
    percent, `temperature` in °C, `power` in W; None: not told. `processes` are pids with their
    bytes on it. `stale` are the seconds since it was really read, None: just now. A device that is
    stale has figures of an earlier moment: nothing new may be concluded from them."""

    reading: DeviceReading
    name: str
    kind: str
    utilisation: int | None = None
    temperature: int | None = None
    power: float | None = None
    processes: tuple[tuple[int, int], ...] | None = None
    stale: float | None = None
    warning: str = ""


def kind_of(device: DeviceId) -> str:
    found = _KIND.match(device)
    return found[0] if found else device


def plausible(total: int, free: int) -> bool:
    return 0 < total < LARGEST and 0 <= free <= total


class Kept(Generic[T]):
    """The last good reading of one thing, also while it cannot be read. It warns once for each
    reason, not at each look, and says once that it is well again."""

    def __init__(self, what: str, clock: Clock = time.monotonic) -> None:
        self.value: T | None = None
        self.why = ""
        self._what = what
        self._clock = clock
        self._read_at = 0.0

    def good(self, value: T) -> None:
        if self.why:
            logger.info("%s can be read again", self._what)
        self.value, self.why, self._read_at = value, "", self._clock()

    def bad(self, why: str, detail: str = "", *, expected: bool = False) -> None:
        """`detail` may differ from one look to the next: it makes no new reason. What is `expected`
        at times is no warning."""
        if why != self.why:
            level = logging.DEBUG if expected else logging.WARNING
            stays = "" if self.value is None else "; its last known figures stay"
            logger.log(level, "%s: %s%s%s", self._what, why, detail and f" ({detail})", stays)
        self.why = why

    @property
    def stale(self) -> float | None:
        """Seconds since the value was read, while it cannot be."""
        return self._clock() - self._read_at if self.why and self.value is not None else None


def as_last_seen(kept: Kept[Device]) -> Device | None:
    """None: never. While it is stale, without what is true for a moment only."""
    device = kept.value
    if device is None or not kept.why:
        return device
    return replace(
        device,
        utilisation=None,
        temperature=None,
        power=None,
        processes=None,
        stale=kept.stale,
        warning=kept.why,
    )
