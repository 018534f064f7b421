"""Words for memory in the core's tests: what a preset takes, and what devices have."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.sizes import Bytes, DeviceReading, FixedShape, Need
from scheduler.core.values import PresetSpec


def sized(need: Bytes) -> FixedShape | None:
    """At any context; nothing at all is nothing that is counted."""
    return FixedShape(((0, Need(tuple(need))),)) if need else None


def taken_by(spec: PresetSpec) -> dict[str, int]:
    """What `sized` said."""
    if spec.shape is None:
        return {}
    assert isinstance(spec.shape, FixedShape)
    return dict(spec.shape.sizes[0][1].own)


def readings(capacity: Iterable[tuple[str, int]]) -> tuple[DeviceReading, ...]:
    """Devices with nothing of others on them."""
    return tuple(DeviceReading(device, total=size, free=size) for device, size in capacity)
