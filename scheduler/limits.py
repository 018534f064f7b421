"""What Corral may use of each device: what people say in the admin, beneath what the environment or
`serve`'s command line says."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction

from models_registry.access import Asker
from scheduler.describing import live_devices
from scheduler.models import DeviceLimit
from scheduler.protocol import Refused
from scheduler.runtime.devices.limits import MIB, Limits, Size

BUDGET_VARIABLE = "CORRAL_DEVICE_BUDGET"
MARGIN_VARIABLE = "CORRAL_MEMORY_MARGIN, or serve's --models-memory-margin"


def device_limits() -> Limits:
    """As they count now: one query. A change of a row raises the registry's revision."""
    fixed = fixed_limits()
    rows = list(DeviceLimit.objects.all())
    budgets = {row.device.lower(): Size(row.budget * MIB) for row in rows if row.budget is not None}
    margins = {row.device.lower(): Size(row.margin * MIB) for row in rows if row.margin is not None}
    return Limits(
        budgets=budgets | dict(fixed.budgets),
        margins={**(margins if fixed.margin_each is None else {}), **fixed.margins},
        margin_each=fixed.margin_each,
        spelled={row.device.lower(): row.device for row in rows} | dict(fixed.spelled),
    )


def fixed_limits() -> Limits:
    """What no row can change."""
    return Limits.parse(settings.CORRAL_DEVICE_BUDGET, settings.CORRAL_MEMORY_MARGIN)


def set_by(device: str) -> dict[str, str]:
    """Of `budget` and `margin` those that a row cannot change, and what sets them instead."""
    fixed = fixed_limits()
    found = {}
    if device.lower() in fixed.budgets:
        found["budget"] = BUDGET_VARIABLE
    if fixed.margin_each is not None or device.lower() in fixed.margins:
        found["margin"] = MARGIN_VARIABLE
    return found


def check_device(device: str) -> None:
    """Raises ValidationError for a name that no device here has; one that has limits may be away
    for now. Without a scheduler that has read its devices nobody knows, and any name is taken."""
    try:
        live = {each.device for each in live_devices()}
    except Refused:
        return
    limited = set(DeviceLimit.objects.values_list("device", flat=True))
    known = live | limited
    if live and device.lower() not in {name.lower() for name in known}:
        told = f"There is no such device here. Known: {', '.join(sorted(known))}."
        raise ValidationError({"device": told})


def change_limit(device: str, changes: Mapping[str, int | None], asker: Asker) -> DeviceLimit:
    """MiB by `budget` and `margin`; None leaves it to what counts below. The row is made when there
    is none. What is so already makes no version. Raises ValidationError."""
    check_device(device)
    with transaction.atomic():
        rows = DeviceLimit.objects.select_for_update()
        limit = rows.filter(device__iexact=device).first() or DeviceLimit(device=device)
        changed = {name: mib for name, mib in changes.items() if getattr(limit, name) != mib}
        for name, mib in changed.items():
            setattr(limit, name, mib)
        limit.full_clean()
        if changed:
            limit._change_reason = asker.label  # type: ignore[attr-defined]
            limit.save()
    return limit
