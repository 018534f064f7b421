"""Places and sizes in memory, in words: for the admin's pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from models_registry import measurements, ports
from models_registry.admin.base import mebibytes
from models_registry.admin.ladders_shown import ladders_shown
from models_registry.admin.state_words import state_word
from models_registry.errors import ManagementRefused
from models_registry.models import Preset
from models_registry.ports import FitAnswer, Fitting, PlacementKind, Running

MIB = 1 << 20


def place(kind: PlacementKind | None, layers: Mapping[str, int]) -> str:
    """Empty for none."""
    if kind is None:
        return ""
    if kind == "whole":
        return _("on %(join)s") % {"join": ", ".join(layers)}
    shares = ", ".join(
        _("%(count)s layers on %(device)s") % {"count": count, "device": device}
        for device, count in layers.items()
    )
    return {
        "fixed": _("as its options say"),
        "spread": f"spread: {shares}",
        "partial": _("%(shares)s, the rest on the host") % {"shares": shares},
        "host": _("on the host"),
    }[kind]


def tokens(context: int) -> str:
    return (
        _("%(context)s tokens") % {"context": f"{context:,}"}
        if context
        else _("as its options say")
    )


def sizes(by_device: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(device, mebibytes(size)) for device, size in by_device.items()]


def fit_shown(ask: Callable[[], FitAnswer]) -> dict[str, Any]:
    """What would fit, for a template; or why nobody can say."""
    try:
        answer = ask()
    except ports.SchedulerUnavailable as error:
        return {"problem": _("The scheduler does not answer: %(error)s") % {"error": error}}
    except (ports.SchedulerRefused, ManagementRefused) as refusal:
        return {"problem": str(refusal)}
    return {
        **ladders_shown(answer),
        "estimated": answer.estimated,
        "places": [
            _fitting(_("Now"), answer.now),
            _fitting(_("On an empty machine"), answer.empty),
        ],
    }


def _fitting(when: str, fitting: Fitting) -> dict[str, Any]:
    return {
        "when": when,
        "place": place(fitting.kind, fitting.layers),
        "context": tokens(fitting.context),
        "sizes": sizes(fitting.bytes),
        "evicts": ", ".join(fitting.evicts),
        "waits": fitting.waits,
        "problem": fitting.problem,
    }


def running_shown(running: Running) -> dict[str, Any]:
    """An instance: where it is, why there, and its bytes on each device: what they add up from, and
    what it reports."""
    return {
        "instance": running.instance,
        "state": state_word(running.state),
        "place": place(running.kind, running.layers),
        "why": running.why,
        "context": tokens(running.context),
        "devices": [
            _sum_shown(running, device) for device in {**running.predicted, **running.actual}
        ],
    }


def _sum_shown(running: Running, device: str) -> dict[str, str]:
    """Each part is rounded so that they add up to what is shown as their sum."""
    granted = _rounded(running.predicted.get(device, 0))
    least = min(_rounded(running.least.get(device, 0)), granted)
    surplus = min(_rounded(running.surplus.get(device, 0)), granted - least)
    return {
        "device": device,
        "least": mebibytes(least),
        "more": mebibytes(granted - least - surplus),
        "surplus": mebibytes(surplus),
        "granted": mebibytes(granted),
        "actual": mebibytes(running.actual.get(device, 0)) if running.actual else "",
    }


def _rounded(size: int) -> int:
    """As `mebibytes` shows it: to a tenth."""
    return round(size * 10 / MIB) * MIB // 10


def measured_shown(preset: Preset) -> dict[str, Any]:
    """What the measure job found, device by device, as text; empty before the first order."""
    row = measurements.of_preset(preset)
    if row is None:
        return {}
    totals = measurements.total_bytes(row)
    return {
        "row": row,
        "context": tokens(_smallest_context(row.shape or {})),
        "devices": [
            (
                each["device"],
                *(mebibytes(each[part]) for part in ("model", "context", "compute")),
                mebibytes(totals[each["device"]]),
            )
            for each in row.devices
            if each["device"] in totals
        ],
    }


def _smallest_context(shape: Mapping[str, Any]) -> int:
    """Of a shape as it is stored; 0: as its options say, or not known."""
    if shape.get("form") == "fixed":
        return int(shape["sizes"][0]["context"])
    return int(shape.get("contexts", [0])[0])
