"""Memory of presets whose engine cannot be measured: what a person declared, then what was seen.

What is seen of an instance is all its processes together, on each device, at the most so far.
Nothing that its preset declared is given away while it runs: it may grow into that. The next start
goes by what earlier ones took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from models_registry.launch import LaunchSpec
from models_registry.model_paths import files_state
from scheduler.core.sizes import DeviceId, FileId
from scheduler.models import InstanceRecord

from .devices.device import Device
from .figures import KnownShape, fixed_shape, is_declared

LIVES = 5
"""Instances of a preset, the last ones, whose most counts."""
WORTH_TELLING = 16 << 20


def learned_shapes(specs: Iterable[LaunchSpec]) -> dict[str, KnownShape]:
    """By memory fingerprint, of those that have run. Blocking."""
    wanted = {spec.memory_fingerprint: spec for spec in specs if is_declared(spec)}
    if not wanted:
        return {}
    nth = Window(RowNumber(), partition_by=F("figures"), order_by=F("id").desc())
    rows = InstanceRecord.objects.filter(figures__in=wanted).exclude(actual={})
    most: dict[str, dict[DeviceId, int]] = {}
    last = rows.annotate(nth=nth).filter(nth__lte=LIVES).order_by()
    for fingerprint, actual in last.values_list("figures", "actual"):
        most[fingerprint] = most_of(most.get(fingerprint, {}), actual)
    return {
        fingerprint: fixed_shape(tuple(sorted(sizes.items())), _mapped(wanted[fingerprint]))
        for fingerprint, sizes in most.items()
    }


def _mapped(spec: LaunchSpec) -> tuple[tuple[FileId, int], ...]:
    """A model file is taken to be mapped: its pages are nobody's own, so they were not seen."""
    size = files_state(spec.model_path).size if spec.model_path else 0
    return ((FileId(spec.model_path), size),) if size else ()


def seen(devices: Iterable[Device], pids: Collection[int]) -> dict[DeviceId, int]:
    """What these processes have together, where the driver lists processes."""
    found = {
        device.reading.device: sum(size for pid, size in device.processes if pid in pids)
        for device in devices
        if device.processes is not None and device.reading.foreign is not None
    }
    return {device: size for device, size in found.items() if size}


def grown(before: Mapping[DeviceId, int], now: Mapping[DeviceId, int]) -> bool:
    """By so much that it is worth being told."""
    return any(size - before.get(device, 0) >= WORTH_TELLING for device, size in now.items())


def most_of(one: Mapping[DeviceId, int], other: Mapping[DeviceId, int]) -> dict[DeviceId, int]:
    return {device: max(one.get(device, 0), other.get(device, 0)) for device in {**one, **other}}
