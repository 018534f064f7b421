"""The stored measurements: read by pages, ordered by the scheduler, written by the measure job.

A row is `pending` from its order until a job has measured it or failed. A job that is killed in
between leaves it pending; it is then ordered again (`interrupted`, `due`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from models_registry import revision
from models_registry.launch import LaunchSpec, launch_spec_of
from models_registry.models import Measurement, Preset

State = Measurement.State

RETRY_AFTER = (timedelta(minutes=1), timedelta(minutes=10))
"""A failed one is tried again after these pauses, and then no more."""
MOST_ATTEMPTS = len(RETRY_AFTER) + 1
LOST_AFTER = timedelta(minutes=2)
"""No job works as long as this: one that began earlier was killed."""

_LONGEST_ERROR = 4000


# Read ------------------------------------------------------------------------------------------


def of_preset(preset: Preset) -> Measurement | None:
    """Of the preset as it is now; None when none was ordered yet, or it cannot be started."""
    fingerprint = launch_spec_of(preset).memory_fingerprint
    return Measurement.objects.filter(fingerprint=fingerprint).first() if fingerprint else None


def total_bytes(measurement: Measurement) -> dict[str, int]:
    """By device. Empty while there are no figures; those of a row that is measured again count."""
    if measurement.state in (State.FAILED, State.UNREADABLE):
        return {}
    return {
        row["device"]: row["model"] + row["context"] + row["compute"] for row in measurement.devices
    }


@dataclass(frozen=True, slots=True)
class StoredShape:
    """`data` is plain (scheduler/measuring/shapes.py makes a shape of it); `estimated` by the
    header alone, since measuring failed."""

    data: Mapping[str, Any]
    estimated: bool
    measured_at: datetime


def figures_of(specs: Iterable[LaunchSpec]) -> dict[str, dict[str, int]]:
    """By memory fingerprint, those that are known: bytes by device at the smallest context."""
    rows = Measurement.objects.filter(fingerprint__in=_fingerprints(specs))
    found = rows.exclude(state__in=(State.FAILED, State.UNREADABLE)).defer("shape")
    return {row.fingerprint: totals for row in found if (totals := total_bytes(row))}


def shapes_of(
    specs: Iterable[LaunchSpec], known: Mapping[str, StoredShape] = MappingProxyType({})
) -> dict[str, StoredShape]:
    """By memory fingerprint, those that there are; also while one is measured again. What is
    `known` is read again only where it has changed."""
    rows = Measurement.objects.filter(
        fingerprint__in=_fingerprints(specs), shape__isnull=False, measured_at__isnull=False
    )
    times = dict(rows.values_list("fingerprint", "measured_at"))
    found = {
        fingerprint: known[fingerprint]
        for fingerprint, at in times.items()
        if fingerprint in known and known[fingerprint].measured_at == at
    }
    for row in rows.filter(fingerprint__in=times.keys() - found.keys()):
        if row.shape is not None and row.measured_at is not None:
            found[row.fingerprint] = StoredShape(row.shape, row.estimated, row.measured_at)
    return found


def _fingerprints(specs: Iterable[LaunchSpec]) -> set[str]:
    return {spec.memory_fingerprint for spec in specs} - {""}


# Order -----------------------------------------------------------------------------------------


def due(specs: Sequence[LaunchSpec], *, queue_is_empty: bool) -> list[str]:
    """The fingerprints to be put on the queue now: new ones, failed ones whose pause is over, and
    those whose job was lost. Each is returned once, and its row says so.

    A pending row counts as lost only when the queue is empty: a consumer that is away for long
    must not find it there a hundred times.
    """
    now = timezone.now()
    wanted = {spec.memory_fingerprint: spec.preset for spec in specs if spec.memory_fingerprint}
    known = set(
        Measurement.objects.filter(fingerprint__in=wanted).values_list("fingerprint", flat=True)
    )
    new = [
        fingerprint
        for fingerprint, preset in wanted.items()
        if fingerprint not in known and _created(fingerprint, preset, now)
    ]
    _give_up(Q(started_at__lt=now - LOST_AFTER), now)
    rows = Measurement.objects.filter(fingerprint__in=known)
    again = _failed_long_ago(now)
    if queue_is_empty:
        again |= Q(state=State.PENDING, ordered_at__lt=now - LOST_AFTER) & (
            Q(started_at=None) | Q(started_at__lt=now - LOST_AFTER)
        )
    return new + _ordered(rows.filter(again), now)


def order(spec: LaunchSpec) -> None:
    """Measure it anew, whatever is known of it. Its figures stay until there are others."""
    now = timezone.now()
    _created(spec.memory_fingerprint, spec.preset, now)
    Measurement.objects.filter(fingerprint=spec.memory_fingerprint).update(
        state=State.PENDING,
        preset=spec.preset,
        attempts=0,
        ordered_at=now,
        started_at=None,
        used_at=now,
    )


def interrupted() -> list[str]:
    """Those that a job had begun when its process was killed; asked when no job runs."""
    now = timezone.now()
    _give_up(Q(started_at__isnull=False), now)
    rows = Measurement.objects.filter(state=State.PENDING).exclude(started_at=None)
    return _ordered(rows, now)


def _give_up(lost: Q, now: datetime) -> None:
    """Of jobs whose process died: what has done so each time is not begun for ever."""
    Measurement.objects.filter(lost, state=State.PENDING, attempts__gte=MOST_ATTEMPTS).update(
        state=State.FAILED,
        devices=[],
        shape=None,
        estimated=False,
        error=f"the jobs process died {MOST_ATTEMPTS} times while it measured this",
        started_at=None,
        measured_at=now,
    )


def _failed_long_ago(now: datetime) -> Q:
    found = Q()
    for attempts, pause in enumerate(RETRY_AFTER, start=1):
        found |= Q(state=State.FAILED, attempts=attempts, measured_at__lt=now - pause)
    return found


def _created(fingerprint: str, preset: str, now: datetime) -> bool:
    """False when another process was faster."""
    try:
        with transaction.atomic():
            Measurement.objects.create(
                fingerprint=fingerprint, preset=preset, ordered_at=now, used_at=now
            )
    except IntegrityError:
        return False
    return True


def _ordered(rows: QuerySet[Measurement], now: datetime) -> list[str]:
    """Those of `rows` that this call put back to pending, and nobody else in the same moment."""
    found = []
    for row in rows:
        same = Measurement.objects.filter(
            pk=row.pk, state=row.state, ordered_at=row.ordered_at, started_at=row.started_at
        )
        if same.update(state=State.PENDING, ordered_at=now, started_at=None):
            found.append(row.fingerprint)
    return found


# The job's side --------------------------------------------------------------------------------


def claim(fingerprint: str) -> Measurement | None:
    """The row, if it waits and no job works on it. An attempt counts from here on, also when its
    process dies."""
    now = timezone.now()
    free = Q(started_at=None) | Q(started_at__lt=now - LOST_AFTER)
    waiting = Measurement.objects.filter(free, fingerprint=fingerprint, state=State.PENDING)
    if not waiting.update(started_at=now, attempts=F("attempts") + 1):
        return None
    return Measurement.objects.get(fingerprint=fingerprint)


def postpone(claimed: Measurement) -> None:
    """Its device is in use: it is ordered again when LOST_AFTER has passed, and no attempt was
    made."""
    Measurement.objects.filter(pk=claimed.pk, started_at=claimed.started_at).update(
        started_at=None, ordered_at=timezone.now(), attempts=F("attempts") - 1
    )


def store(
    claimed: Measurement,
    devices: Sequence[Mapping[str, Any]],
    shape: Mapping[str, Any],
    *,
    engine: str,
    way: str,
    seconds: float,
) -> bool:
    """False when it was ordered anew meanwhile: the figures are then somebody else's to find."""
    return _finish(
        claimed,
        state=State.MEASURED,
        devices=list(devices),
        shape=shape,
        estimated=False,
        error="",
        engine=engine[:250],
        way=way,
        seconds=seconds,
    )


def fail(
    claimed: Measurement, error: str, *, seconds: float, estimate: Mapping[str, Any] | None = None
) -> bool:
    """`estimate` is the shape that counts meanwhile."""
    return _finish(
        claimed,
        state=State.FAILED,
        devices=[],
        shape=estimate,
        estimated=estimate is not None,
        error=_kept(error),
        seconds=seconds,
    )


def refuse(claimed: Measurement, error: str, *, seconds: float) -> bool:
    """Its header cannot be read: it is not measured again by itself, nor started."""
    with transaction.atomic():
        refused = _finish(
            claimed,
            state=State.UNREADABLE,
            devices=[],
            shape=None,
            estimated=False,
            error=_kept(error),
            seconds=seconds,
        )
        if refused:
            revision.bump()  # what may be started is another
    return refused


def _kept(error: str) -> str:
    return error.replace("\0", "\N{REPLACEMENT CHARACTER}")[:_LONGEST_ERROR]


def _finish(claimed: Measurement, **fields: Any) -> bool:
    mine = Measurement.objects.filter(pk=claimed.pk, started_at=claimed.started_at)
    return bool(mine.update(**fields, started_at=None, measured_at=timezone.now()))


def prune(days: int, in_use: Iterable[str]) -> int:
    """Removes what no preset has had for so long; returns how many rows went."""
    now = timezone.now()
    Measurement.objects.filter(fingerprint__in=set(in_use)).update(used_at=now)
    gone, _ = Measurement.objects.filter(used_at__lt=now - timedelta(days=days)).delete()
    return gone
