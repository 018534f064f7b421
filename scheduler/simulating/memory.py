"""Memory on the imagined machine: a model takes what its smallest context takes, in one place."""

from __future__ import annotations

from scheduler.core.placing import need_of, tiers
from scheduler.core.sizes import Bytes, DeviceReading
from scheduler.core.values import PresetSpec


def smallest(spec: PresetSpec) -> Bytes:
    """At the best place of an empty machine; nothing for a model of which nothing is known."""
    if spec.shape is None:
        return ()
    best = next(tiers(spec.shape, {}, {}))
    return need_of(spec.shape, best.placements[0], 0).own


def as_readings(capacity: Bytes) -> tuple[DeviceReading, ...]:
    """Devices that have so much for models, and nobody else on them."""
    return tuple(DeviceReading(device, total=size, free=size) for device, size in capacity)


def as_capacity(devices: tuple[DeviceReading, ...]) -> Bytes:
    """What models may take of each device, all together."""
    return tuple((each.device, _limit(each)) for each in devices)


def _limit(device: DeviceReading) -> int:
    left = device.total - (device.foreign or 0) - device.margin
    return left if device.budget is None else min(left, device.budget)
