"""What a measurement yields: bytes per device, and what may pass for such figures at all. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HOST = "Host"
MOST_BYTES = 1 << 50
"""A pebibyte on one device: what says more is nonsense."""
MOST_DEVICES = 64

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:+-]{0,63}")


class Nonsense(ValueError):
    """Figures that cannot be: negative, absurd, or of a device that has no name."""


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """Bytes that an instance takes on one device.

    `weights` are the tensors themselves. On the host `model` may be more: a memory-mapped file
    counts from its first tensor used there to its last, whatever lies between.
    """

    device: str
    model: int = 0
    context: int = 0
    compute: int = 0
    weights: int = 0

    @property
    def total(self) -> int:
        return self.model + self.context + self.compute

    def as_row(self) -> dict[str, Any]:
        """As it is stored (models_registry.models.Measurement.devices)."""
        return {
            "device": self.device,
            "model": self.model,
            "context": self.context,
            "compute": self.compute,
            "weights": self.weights,
        }


def checked(figures: Iterable[DeviceFigures]) -> tuple[DeviceFigures, ...]:
    """Those of devices that anything is on, the host in any case. Raises Nonsense."""
    found = tuple(each for each in figures if each.total or each.device == HOST)
    if not found:
        raise Nonsense("there is no device in it")
    if len(found) > MOST_DEVICES:
        raise Nonsense(f"{len(found)} devices are more than a machine has")
    for each in found:
        if not _NAME.fullmatch(each.device):
            raise Nonsense(f"{each.device[:80]!r} is no name of a device")
        parts = (each.model, each.context, each.compute, each.weights)
        if any(part < 0 or part > MOST_BYTES for part in parts):
            raise Nonsense(f"{each.device} takes {parts} bytes")
    if len({each.device for each in found}) < len(found):
        raise Nonsense("a device is in it twice")
    return found


def merged(figures: Sequence[DeviceFigures]) -> tuple[DeviceFigures, ...]:
    """Rows of the same device added up, in the order of their first."""
    sums: dict[str, DeviceFigures] = {}
    for each in figures:
        before = sums.get(each.device)
        sums[each.device] = each if before is None else _sum(before, each)
    return tuple(sums.values())


def totals(figures: Iterable[DeviceFigures]) -> Mapping[str, int]:
    return {each.device: each.total for each in figures}


def _sum(one: DeviceFigures, other: DeviceFigures) -> DeviceFigures:
    return DeviceFigures(
        one.device,
        one.model + other.model,
        one.context + other.context,
        one.compute + other.compute,
        one.weights + other.weights,
    )
