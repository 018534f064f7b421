"""Loads and ends of models over time, for the page on usage: the scheduler's record joined to what
the proxy counts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from proxy.usage_pages.sections import Section, over_time
from proxy.usage_pages.spans import Span
from scheduler.models import InstanceRecord

FAILED = frozenset(
    {"crashed", "hung", "scheduler_died", "failed_to_load", "load_stalled", "out_of_memory"}
)
NOTE = gettext_lazy(
    "How often models were loaded, and why they ended, as long as the scheduler's record is kept "
    "(CORRAL_RECORD_DAYS). A load that follows an eviction is a swap."
)


def swaps(span: Span, model: str = "") -> Section:
    instances = InstanceRecord.objects.order_by()
    if model:
        instances = instances.filter(preset=model)
    start, end = span.hours
    loads = instances.filter(loaded_at__gte=start, loaded_at__lt=end)
    ends = instances.filter(ended_at__gte=start, ended_at__lt=end)
    values = {_("loaded"): _counted(span, loads.values_list("loaded_at", flat=True).iterator())}
    by_reason: dict[str, list[datetime | None]] = {
        _("evicted"): [],
        _("failed"): [],
        _("ended otherwise"): [],
    }
    for at, reason in ends.values_list("ended_at", "reason").iterator():
        by_reason[_kind(reason)].append(at)
    values |= {kind: _counted(span, moments) for kind, moments in by_reason.items()}
    return over_time(span, "swaps", _("Loads and evictions"), str(NOTE), values)


def _kind(reason: str) -> str:
    if reason == "evicted":
        return _("evicted")
    return _("failed") if reason in FAILED else _("ended otherwise")


def _counted(span: Span, moments: Iterable[datetime | None]) -> list[float]:
    places = {at: number for number, at in enumerate(span.units())}
    counts = [0.0] * len(places)
    for at in moments:
        place = None if at is None else places.get(span.unit_of(at))
        if place is not None:
            counts[place] += 1
    return counts
