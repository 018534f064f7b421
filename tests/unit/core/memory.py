"""Words for memory in the core's tests: what a preset takes, and what devices have."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.sizes import Bytes, DeviceId, DeviceReading, FileId, FixedShape, Need
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


def reading(device: str, total: int, *, others: int = 0, **told) -> DeviceReading:
    """A device on which our instances hold nothing; others use so much of it."""
    return DeviceReading(DeviceId(device), total=total, free=total - others, **told)


def listing(device: str, total: int, *, others: int = 0, **told) -> DeviceReading:
    """One whose driver says whose memory it is."""
    return reading(device, total, others=others, foreign=others, **told)


def stepped(*sizes: int, device: str = "CUDA0", file: str = "", maps: int = 0) -> FixedShape:
    """So much of a device at contexts of 1,024 tokens, of twice as many, and so on."""
    mapped = ((FileId(file), maps),) if maps else ()
    return FixedShape(
        tuple(
            (1024 << step, Need(((DeviceId(device), size),), mapped))
            for step, size in enumerate(sizes)
        )
    )
