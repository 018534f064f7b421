"""What happened to each model in the last minutes or hours, from the record: bounded, whatever the
record holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry.models import Preset
from scheduler.models import DecisionRecord, InstanceRecord

from .words import decision_told, kind_told, lasting, reason_told

SPANS = {
    "10m": (timedelta(minutes=10), gettext_lazy("10 minutes")),
    "1h": (timedelta(hours=1), gettext_lazy("1 hour")),
    "6h": (timedelta(hours=6), gettext_lazy("6 hours")),
    "24h": (timedelta(hours=24), gettext_lazy("24 hours")),
}
FIRST_SPAN = "1h"
MOST_ROWS = 300
"""Of each kind, the newest."""
MOST_LANES = 24
MOST_TOLD = 10
"""Of what ended, the newest, in words beneath."""
LEAST_PERCENT = 0.4
"""Of the width: what is shorter can still be pointed at."""

_SHOWN = ("drain", "ask_exit", "kill", "reject")
_BAD_ENDS = (
    "crashed", "out_of_memory", "failed_to_load", "hung", "load_stalled", "scheduler_died",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """`look` is what it is drawn as: load, run, drain, evict, end, crash or refuse. `left` and
    `width` in percent; a mark has no width. `why` is (instance or decision, its key)."""

    look: str
    left: float
    width: float
    text: str
    why: tuple[str, int]

    @property
    def key(self) -> str:
        return f"{self.look}-{self.why[0]}-{self.why[1]}"


@dataclass(slots=True)
class Lane:
    """`pk` is its preset's, while there is one."""

    preset: str
    last: datetime
    items: list[Item] = field(default_factory=list)
    marks: list[tuple[datetime, Item]] = field(default_factory=list)
    pk: int | None = None

    def add(self, item: Item, at: datetime) -> None:
        self.items.append(item)
        if not item.width:
            self.marks.append((at, item))
        self.last = max(self.last, at)


@dataclass(frozen=True, slots=True)
class Timeline:
    span: str
    begin: datetime
    end: datetime
    lanes: list[Lane]
    newest: list[Item]
    """Of the marks: what was evicted, ended, crashed or was refused."""
    cut: bool
    """More has happened than is shown."""
    decisions: bool
    """Whether drains, evictions and refusals are among it: not everybody may see them."""


class _Axis:
    def __init__(self, begin: datetime, end: datetime) -> None:
        self._begin = begin
        self._seconds = (end - begin).total_seconds()

    def at(self, moment: datetime) -> float:
        part = (moment - self._begin).total_seconds() / self._seconds
        return round(100 * min(1.0, max(0.0, part)), 2)


def timeline(span: str, *, decisions: bool, now: datetime | None = None) -> Timeline:
    """An unknown span is the first one."""
    span = span if span in SPANS else FIRST_SPAN
    end = now or timezone.now()
    begin = end - SPANS[span][0]
    axis = _Axis(begin, end)
    ran = InstanceRecord.objects.filter(Q(ended_at=None) | Q(ended_at__gte=begin))
    instances = list(ran.defer("argv").order_by("-id")[: MOST_ROWS + 1])
    decided: list[DecisionRecord] = []
    if decisions:
        shown = DecisionRecord.objects.filter(at__gte=begin, kind__in=_SHOWN)
        decided = list(shown.select_related("instance").order_by("-id")[: MOST_ROWS + 1])
    lanes: dict[str, Lane] = {}
    for row in reversed(instances[:MOST_ROWS]):
        lane = lanes.setdefault(row.preset, Lane(row.preset, row.started_at))
        for item in _ran(row, axis, end):
            lane.add(item, row.ended_at or end)
    for decision in reversed(decided[:MOST_ROWS]):
        lane = lanes.setdefault(decision.preset, Lane(decision.preset, decision.at))
        lane.add(_decided(decision, axis, end), decision.at)
    latest = sorted(lanes.values(), key=lambda lane: lane.last, reverse=True)
    cut = max(len(instances), len(decided)) > MOST_ROWS or len(latest) > MOST_LANES
    ordered = sorted(latest[:MOST_LANES], key=lambda lane: lane.preset.lower())
    keys = keys_of(lane.preset for lane in ordered)
    for lane in ordered:
        lane.pk = keys.get(lane.preset)
    marks = sorted(chain(*(lane.marks for lane in latest)), key=lambda mark: mark[0])
    newest = [item for _at, item in reversed(marks[-MOST_TOLD:])]
    return Timeline(span, begin, end, ordered, newest, cut, decisions)


def keys_of(presets: Iterable[str]) -> dict[str, int]:
    """By name, of those that still are: their pages are found by them."""
    return dict(Preset.objects.filter(name__in=set(presets)).values_list("name", "pk"))


def _ran(row: InstanceRecord, axis: _Axis, now: datetime) -> Iterator[Item]:
    end = row.ended_at or now
    loaded = row.loaded_at
    why = ("instance", row.pk)
    until = loaded or end
    took = lasting((until - row.started_at).total_seconds())
    if loaded is not None:
        words = _("%(preset)s loaded at %(at)s, in %(time)s")
    elif row.ended_at is not None:
        words = _("%(preset)s began to load at %(at)s, and ended after %(time)s")
    else:
        words = _("%(preset)s has been loading since %(at)s, for %(time)s")
    text = words % {"preset": row.preset, "at": clock(row.started_at), "time": took}
    yield _bar("load", axis, row.started_at, until, text, why)
    if loaded is not None:
        named = {"preset": row.preset, "time": lasting((end - loaded).total_seconds())}
        words = _("%(preset)s ran for %(time)s") if row.ended_at else _("%(preset)s runs, %(time)s")
        yield _bar("run", axis, loaded, end, words % named, why)
    if row.ended_at is not None and row.reason in _BAD_ENDS:
        named = {"preset": row.preset, "at": clock(end), "reason": reason_told(row.reason)}
        told = _("%(preset)s ended at %(at)s: %(reason)s") % named
        if row.words and loaded is None:  # of one that has served they may quote its clients
            told += f" ({row.words.splitlines()[-1][:200]})"
        yield Item("crash", axis.at(end), 0.0, told, why)


def _decided(decision: DecisionRecord, axis: _Axis, now: datetime) -> Item:
    why = ("decision", decision.pk)
    told = decision_told(decision.kind, decision.preset, decision.reason, decision.figures)
    text = f"{clock(decision.at)}, {kind_told(decision.kind, decision.reason)}: {told}"
    if decision.kind == "drain":
        row = decision.instance
        end = now if row is None or row.ended_at is None else row.ended_at
        return _bar("drain", axis, decision.at, end, text, why)
    if decision.kind == "reject":
        look = "refuse"
    else:
        look = "evict" if decision.reason in ("evicted", "unwanted") else "end"
    return Item(look, axis.at(decision.at), 0.0, text, why)


def _bar(
    look: str, axis: _Axis, begin: datetime, end: datetime, text: str, why: tuple[str, int]
) -> Item:
    left = axis.at(begin)
    return Item(look, left, max(LEAST_PERCENT, round(axis.at(end) - left, 2)), text, why)


def clock(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%H:%M:%S}"
