"""Figures as people read them."""

from __future__ import annotations

import math
from datetime import datetime, tzinfo

from proxy.usage_pages.spans import Unit

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float) -> str:
    return f"{round(value):,}"


def short(value: float) -> str:
    """For an axis: three digits."""
    for size, letter in _PREFIXES:
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def seconds(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 99.95:
        return f"{value:.3g} s"
    if value < 5400:
        return f"{value / 60:.3g} min"
    return f"{value / 3600:.3g} h"


def share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def moment(at: datetime, unit: Unit, zone: tzinfo) -> str:
    local = at.astimezone(zone)
    return f"{local:%Y-%m-%d}" if unit is Unit.DAY else f"{local:%m-%d %H:%M}"
