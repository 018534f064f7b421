"""What instances of earlier lives took beyond their measurements, as the record tells: the first
load after a restart is admitted with it too (L2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from scheduler.core.sizes import Bytes, DeviceId
from scheduler.models import InstanceRecord


@dataclass(frozen=True, slots=True)
class Surplus:
    """`at` is the start of the instance that it was learned from."""

    at: datetime
    bytes: Bytes


def recorded_surplus() -> dict[str, Surplus]:
    """By the fingerprint of the measurement: of the last instance that was granted by it and said
    what it took. What that one was granted beyond the measurement counts, also where it took less:
    another one needed it."""
    nth = Window(RowNumber(), partition_by=F("figures"), order_by=F("id").desc())
    last = (
        InstanceRecord.objects.exclude(figures="")
        .exclude(actual={})
        .annotate(nth=nth)
        .filter(nth=1)
        .order_by()
        .values_list("figures", "started_at", "predicted", "actual", "surplus")
    )
    found = {
        figures: Surplus(at, _beyond(predicted, actual, surplus))
        for figures, at, predicted, actual, surplus in last
    }
    return {figures: surplus for figures, surplus in found.items() if surplus.bytes}


def _beyond(
    predicted: Mapping[str, int], actual: Mapping[str, int], granted: Mapping[str, int]
) -> Bytes:
    over = {
        device: max(more, actual.get(device, 0) - predicted.get(device, 0) + more)
        for device in {**actual, **granted}
        for more in (granted.get(device, 0),)
    }
    return tuple((DeviceId(device), size) for device, size in sorted(over.items()) if size > 0)
