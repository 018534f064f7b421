"""Loads of a model, one by one: when, how long, from the disk or from memory, why, and how it went
on; and what each took, as predicted and as reported."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import cast

from django.utils import timezone
from django.utils.translation import gettext as _

from models_registry.admin.memory_shown import place, tokens
from models_registry.ports import PlacementKind
from proxy.usage_pages import telling
from proxy.usage_pages.charts import Chart, bars
from routerproj.swaps import FAILED
from scheduler.live_page.words import MIB, lasting, mebibytes, reason_told
from scheduler.models import DecisionRecord, InstanceRecord
from scheduler.runs import Run, runs_of

MOST = 50
"""Loads that are shown."""
MOST_WEIGHED = 5
"""Of these, those whose memory is."""
WARM, COLD = 0.9, 0.1
"""Parts of its files in memory, from which on, and up to which, a load is called so."""
LONGEST_WORDS = 2000


@dataclass(frozen=True, slots=True)
class Load:
    """A row of the table. `look` is the colour of its bar: 0 cold, 1 partly, 2 warm, 3 not known,
    4 failed."""

    key: str
    pk: int | None
    at: str
    took: str
    seconds: float
    look: int
    warmth: str
    why: str
    state: str
    badge: str
    outcome: str
    words: str
    log: bool


@dataclass(frozen=True, slots=True)
class Weighed:
    key: str
    at: str
    place: str
    devices: list[tuple[str, str, str, str]]
    """Device, predicted, reported, reported less predicted."""


@dataclass(frozen=True, slots=True)
class History:
    loads: list[Load]
    chart: Chart | None
    looks: list[tuple[int, str, str]]
    """Colour, name, how many and how long in the middle."""
    weighed: list[Weighed]
    running: list[str]
    """Command lines of what runs."""
    failed: Load | None
    """The newest, if that has failed."""


def history_of(logs: Path, preset: str, *, decisions: bool) -> History:
    runs = runs_of(logs, preset, MOST)
    why = _reasons(runs) if decisions else {}
    loads = [_load(run, why) for run in runs]
    rows = [run.row for run in runs if run.row is not None]
    return History(
        loads=loads,
        chart=_chart(runs, loads),
        looks=_looks(loads),
        weighed=[_weighed(row) for row in rows if row.predicted or row.actual][:MOST_WEIGHED],
        running=[shlex.join(map(str, row.argv)) for row in rows if row.argv and not row.ended_at],
        failed=loads[0] if loads and loads[0].look == _FAILED else None,
    )


_FAILED = 4


def _names() -> Sequence[str]:
    """By look."""
    return (
        _("cold: from the disk"),
        _("partly in memory"),
        _("warm: from memory"),
        _("where from is not known"),
        _("failed"),
    )


def _reasons(runs: Sequence[Run]) -> dict[int, str]:
    """Why each was started."""
    keys = [run.row.pk for run in runs if run.row is not None]
    found = DecisionRecord.objects.filter(instance__in=keys, kind="start").order_by()
    return {pk: reason_told(reason) for pk, reason in found.values_list("instance", "reason")}


def _load(run: Run, why: Mapping[int, str]) -> Load:
    row = run.row
    seconds = _seconds(row)
    has_failed = row is not None and row.ended_at is not None and row.reason in FAILED
    is_loaded = row is not None and row.loaded_at is not None
    return Load(
        key=run.key,
        pk=None if row is None else row.pk,
        at=moment(run.started_at),
        took="-" if seconds is None else telling.seconds(seconds),
        seconds=seconds or 0.0,
        look=_FAILED if has_failed and not is_loaded else _look(row),
        warmth=_warmth(row),
        why=why.get(row.pk, "-") if row is not None else "-",
        state=state_told(run),
        badge=_badge(run, failed=has_failed),
        outcome=_outcome(row),
        words=row.words[-LONGEST_WORDS:] if row is not None and has_failed else "",
        log=run.log is not None,
    )


def _seconds(row: InstanceRecord | None) -> float | None:
    """Until it was loaded, or had failed to; None while it loads."""
    until = None if row is None else row.loaded_at or row.ended_at
    if row is None or until is None:
        return None
    return max(0.0, (until - row.started_at).total_seconds())


def _look(row: InstanceRecord | None) -> int:
    if row is None or row.cached is None:
        return 3
    return 2 if row.cached >= WARM else 0 if row.cached <= COLD else 1


def _warmth(row: InstanceRecord | None) -> str:
    if row is None or row.cached is None:
        return "-"
    names = (_("cold"), _("partly"), _("warm"))
    return f"{names[_look(row)]}, {row.cached:.0%}"


def state_told(run: Run) -> str:
    row = run.row
    if row is None:
        return _("not recorded")
    if row.ended_at is None:
        return _("loading") if row.loaded_at is None else _("running")
    return _("ended") if row.loaded_at is not None else _("not loaded")


def _badge(run: Run, *, failed: bool) -> str:
    if failed:
        return "bad"
    return {"loading": "busy", "running": "good"}.get(run.state, "")


def _outcome(row: InstanceRecord | None) -> str:
    """How long it ran, and why it ended."""
    if row is None or row.ended_at is None:
        return ""
    told = [reason_told(row.reason)]
    if row.loaded_at is not None:
        ran = lasting((row.ended_at - row.loaded_at).total_seconds())
        told.insert(0, _("after %(time)s") % {"time": ran})
    if row.exit_code:
        told.append(_("exit code %(code)s") % {"code": row.exit_code})
    if row.signal:
        told.append(_("signal %(number)s") % {"number": row.signal})
    return ", ".join(told)


def _chart(runs: Sequence[Run], loads: Sequence[Load]) -> Chart | None:
    """A bar for each whose time is known, the newest on the right."""
    shown = [
        (f"{timezone.localtime(run.started_at):%m-%d %H:%M}", load)
        for run, load in zip(runs, loads, strict=True)
        if load.seconds
    ][::-1]
    if not shown:
        return None
    labels = [label for label, _load in shown]
    values = {
        name: [load.seconds if load.look == look else 0.0 for _label, load in shown]
        for look, name in enumerate(_names())
    }
    return bars(labels, values, telling.seconds)


def _looks(loads: Sequence[Load]) -> list[tuple[int, str, str]]:
    """Those that there are."""
    told = []
    for look, name in enumerate(_names()):
        seconds = sorted(load.seconds for load in loads if load.look == look and load.seconds)
        if seconds:
            named = {"count": len(seconds), "time": telling.seconds(seconds[len(seconds) // 2])}
            told.append((look, name, _("%(count)s, half of them within %(time)s") % named))
    return told


def _weighed(row: InstanceRecord) -> Weighed:
    kind = cast(PlacementKind, row.placement) if row.placement else None
    where = place(kind, row.layers)
    devices = []
    for device in {**row.predicted, **row.actual}:
        predicted, actual = row.predicted.get(device, 0), row.actual.get(device)
        more = "-" if actual is None else f"{round((actual - predicted) / MIB):+,} MiB"
        missing = _("not yet") if row.ended_at is None else "-"
        reported = missing if actual is None else mebibytes(actual)
        devices.append((device, mebibytes(predicted), reported, more))
    return Weighed(
        key=str(row.pk),
        at=moment(row.started_at),
        place=f"{where}, {tokens(row.context)}" if where else "",
        devices=devices,
    )


def moment(at: datetime) -> str:
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M:%S}"
