"""Devices, instances and the queue as the live page's templates take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.utils.translation import gettext as _

from models_registry.admin.memory_shown import place, tokens
from models_registry.admin.state_words import state_word
from models_registry.models import Preset
from scheduler.describing import waiters_of
from scheduler.protocol import (
    DeviceState,
    Failure,
    InstanceState,
    QueueEntry,
    Refused,
    RemoteState,
    SnapshotState,
    Waiter,
)

from .timeline import keys_of
from .words import (
    described,
    estimate_told,
    holdup_told,
    lasting,
    mebibytes,
    on_devices,
    reason_told,
)

COLOURS = 6
"""Of instances in the bars; which is which stands in words beneath."""
MOST_ENTRIES = 20
"""Models of the queue that are shown; the rest is counted."""
MOST_ASKED_ABOUT = 10
"""Of these, those whose waiters are asked for: a question each."""
MOST_WAITERS = 5

_BADGES = {"loaded": "good", "loading": "busy", "draining": "warn", "stopping": "warn"}


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a device's memory. `percent` is its width in the bar; `colour` a class."""

    name: str
    colour: str
    held: str
    percent: float
    predicted: str = ""
    actual: str = ""


@dataclass(frozen=True, slots=True)
class DeviceShown:
    name: str
    description: str
    segments: list[Segment]
    total: str
    budget: str
    available: str
    budget_at: float | None
    """Percent of the bar; None without one."""
    warning: str


def device_shown(device: DeviceState) -> DeviceShown:
    parts = list(_parts(device))
    known = sum(size for _name, _colour, size, _figures in parts)
    rest = max(0, device.total - known)
    margin = min(device.margin, rest)
    parts.append((_("Margin, stays free"), "margin", margin, {}))
    parts.append((_("Free"), "free", rest - margin, {}))
    whole = max(device.total, known, 1)
    stale = device.stale
    warning = device.warning
    if stale is not None:
        old = _("these figures are %(time)s old") % {"time": lasting(stale)}
        warning = f"{warning}; {old}" if warning else old
    return DeviceShown(
        name=device.device,
        description=described(device.description),
        segments=[
            Segment(name, colour, mebibytes(size), round(100 * size / whole, 3), **figures)
            for name, colour, size, figures in parts
        ],
        total=mebibytes(device.total),
        budget=_("none") if device.budget is None else mebibytes(device.budget),
        available=mebibytes(device.available),
        budget_at=None if device.budget is None else min(100.0, 100 * device.budget / whole),
        warning=warning,
    )


def _parts(device: DeviceState) -> Iterator[tuple[str, str, int, dict[str, str]]]:
    """Those in use: name, colour, bytes, and what else is known. The largest instance first."""
    own = 0
    colours = _colours([each.instance for each in device.instances])
    for each in sorted(device.instances, key=lambda each: (-each.held, each.instance)):
        own += each.held
        figures = {
            "predicted": mebibytes(each.predicted),
            "actual": _("not yet") if each.actual is None else mebibytes(each.actual),
        }
        name = f"{each.preset} ({each.instance})"
        yield name, f"s{colours[each.instance]}", each.held, figures
    if device.held > own:
        yield _("Weights that are shared"), "shared", device.held - own, {}
    yield _("Other programs"), "external", device.external, {}
    if device.returning:
        yield _("Being given back"), "returning", device.returning, {}


def _colours(instances: list[int]) -> dict[int, int]:
    """As far as there are enough, a colour for each; it keeps its own while others come and go."""
    colours: dict[int, int] = {}
    for instance in instances:
        taken = set(colours.values())
        turns = ((instance + step) % COLOURS for step in range(COLOURS))
        colours[instance] = next((n for n in turns if n not in taken), instance % COLOURS)
    return colours


@dataclass(frozen=True, slots=True)
class Card:
    """An instance, a remote server, or a preset whose last load failed. `used_at` and `started_at`
    are seconds since 1970."""

    key: str
    preset: str
    pk: int | None
    state: str
    badge: str
    progress: float | None = None
    stale: bool = False
    pinned: bool = False
    answering: str = ""
    speed: str = ""
    used_at: int | None = None
    used: str = ""
    started_at: int | None = None
    started: str = ""
    memory: str = ""
    predicted: str = ""
    place: str = ""
    failure: str = ""
    verbs: list[str] = field(default_factory=list)

    @property
    def word(self) -> str:
        return state_word(self.state)


Speeds = Mapping[str, float]
"""Tokens a second, by preset, of its last answers."""


class Cards:
    """`now` is seconds since 1970; `only` of that preset."""

    def __init__(
        self, snapshot: SnapshotState, speeds: Speeds, now: float, only: str | None = None
    ) -> None:
        if only is not None:
            snapshot = _of_one(snapshot, only)
        self._snapshot = snapshot
        self._speeds = speeds
        self._now = now
        names = {each.preset for each in snapshot.instances}
        names |= {each.preset for each in snapshot.remotes}
        names |= {each.preset for each in snapshot.failures}
        rows = Preset.objects.filter(name__in=names).values_list("name", "pk", "pinned")
        self._rows = {name: (pk, pinned) for name, pk, pinned in rows}

    def shown(self) -> list[Card]:
        """By name, so that none changes its place while it lives."""
        snapshot = self._snapshot
        cards = [self._instance(each) for each in snapshot.instances]
        cards += [self._remote(each) for each in snapshot.remotes if self._is_of_note(each)]
        running = {card.preset for card in cards}
        cards += [self._failed(each) for each in snapshot.failures if each.preset not in running]
        return sorted(cards, key=lambda card: (card.preset.lower(), card.key))

    def _is_of_note(self, remote: RemoteState) -> bool:
        return bool(remote.leases) or remote.used_ago is not None

    def _instance(self, each: InstanceState) -> Card:
        pk, pinned = self._rows.get(each.preset, (None, False))
        speed = self._speeds.get(each.preset)
        context = tokens(each.context)
        where = place(each.placement, each.layers)
        return Card(
            key=f"instance-{each.instance}",
            preset=each.preset,
            pk=pk,
            state=each.state,
            badge=_BADGES.get(each.state, ""),
            progress=each.progress if each.state == "loading" else None,
            stale=each.stale,
            pinned=pinned,
            answering=self._answering(each),
            speed="" if speed is None else f"{speed:,.1f}",
            used_at=round(self._now - each.used_ago),
            used=lasting(each.used_ago),
            started_at=round(self._now - each.started_ago),
            started=lasting(each.started_ago),
            memory=on_devices(each.actual or each.held),
            predicted=on_devices(each.predicted),
            place=f"{where}, {context}" if where else context,
            verbs=_verbs(each, pinned=pinned) if pk is not None else [],
        )

    def _answering(self, each: InstanceState) -> str:
        told = _("%(busy)s of %(slots)s") % {"busy": each.leases, "slots": each.parallel}
        if each.abandoned:
            told += ", " + _("%(count)s of them for nobody") % {"count": each.abandoned}
        return told

    def _remote(self, each: RemoteState) -> Card:
        pk, _pinned = self._rows.get(each.preset, (None, False))
        used = each.used_ago
        return Card(
            key=f"remote-{each.preset}",
            preset=each.preset,
            pk=pk,
            state="remote",
            badge="good",
            answering=_("%(busy)s of %(slots)s") % {"busy": each.leases, "slots": each.parallel},
            used_at=None if used is None else round(self._now - used),
            used="" if used is None else lasting(used),
            place=_("on a remote server"),
        )

    def _failed(self, each: Failure) -> Card:
        pk, pinned = self._rows.get(each.preset, (None, False))
        return Card(
            key=f"failed-{each.preset}",
            preset=each.preset,
            pk=pk,
            state="failed",
            badge="bad",
            pinned=pinned,
            failure=": ".join(filter(None, (reason_told(each.reason), each.words))),
            verbs=["load"] if pk is not None else [],
        )


def _of_one(snapshot: SnapshotState, preset: str) -> SnapshotState:
    return msgspec.structs.replace(
        snapshot,
        instances=[each for each in snapshot.instances if each.preset == preset],
        remotes=[each for each in snapshot.remotes if each.preset == preset],
        failures=[each for each in snapshot.failures if each.preset == preset],
    )


def _verbs(each: InstanceState, *, pinned: bool) -> list[str]:
    verbs = ["load"] if each.state == "sleeping" else []
    verbs += ["apply"] if each.stale else []
    if each.state != "stopping":
        verbs += ["unload"]
    return [*verbs, "unpin" if pinned else "pin"]


@dataclass(frozen=True, slots=True)
class Row:
    """One who waits, or how many more do. `pk` is the preset's, while there is one."""

    key: str
    preset: str
    pk: int | None
    position: str
    tenant: str
    request: str
    kind: str
    waited: str
    since: int
    reason: str
    seconds: str


@dataclass(frozen=True, slots=True)
class QueueShown:
    rows: list[Row]
    waiters: int
    more: int
    """Models that are not shown."""


def queue_shown(
    entries: list[QueueEntry], now: float, ask: Callable[..., Any] = waiters_of
) -> QueueShown:
    rows: list[Row] = []
    keys = keys_of(entry.preset for entry in entries[:MOST_ENTRIES])
    for number, entry in enumerate(entries[:MOST_ENTRIES]):
        pk = keys.get(entry.preset)
        waiters = _waiters(entry, ask) if number < MOST_ASKED_ABOUT else []
        rows += [_row(entry, pk, waiter, now) for waiter in waiters]
        if (left := entry.waiters - len(waiters)) > 0:
            rows.append(_rest(entry, pk, left, now, whole=not waiters))
    more = max(0, len(entries) - MOST_ENTRIES)
    return QueueShown(rows, sum(entry.waiters for entry in entries), more)


def _waiters(entry: QueueEntry, ask: Callable[..., Any]) -> list[Waiter]:
    try:
        items: list[Waiter] = ask(entry.preset, limit=MOST_WAITERS, offset=0).items
    except Refused:
        return []  # the preset has gone, or the scheduler has, since the queue was told
    return items


def _row(entry: QueueEntry, pk: int | None, waiter: Waiter, now: float) -> Row:
    return Row(
        key=f"waiter-{entry.preset}-{waiter.request or waiter.position}",
        preset=entry.preset,
        pk=pk,
        position=str(waiter.position),
        tenant=waiter.tenant,
        request=waiter.request,
        kind=waiter.kind,
        waited=lasting(waiter.waited),
        since=round(now - waiter.waited),
        reason=holdup_told(entry),
        seconds=estimate_told(waiter.seconds),
    )


def _rest(entry: QueueEntry, pk: int | None, left: int, now: float, *, whole: bool) -> Row:
    text = _("%(count)s waiting") if whole else _("%(count)s more")
    return Row(
        key=f"rest-{entry.preset}",
        preset=entry.preset,
        pk=pk,
        position=text % {"count": left},
        tenant="",
        request="",
        kind="",
        waited=lasting(entry.oldest),
        since=round(now - entry.oldest),
        reason=holdup_told(entry),
        seconds=estimate_told(entry.seconds),
    )
