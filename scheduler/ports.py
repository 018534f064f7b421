"""The scheduler as the registry's pages know it (models_registry.ports), by the control socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from django.conf import settings
from django.db.models import DateTimeField, Max
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_noop

from models_registry.audit.asked import asked
from models_registry.engine_path import llama_server
from models_registry.launch import LaunchSpec
from models_registry.ports import (
    FitAnswer,
    PresetStatus,
    Running,
    Saved,
    SchedulerRefused,
    SchedulerUnavailable,
    TrialNews,
)

from .client import call
from .protocol import (
    Apply,
    Devices,
    DevicesState,
    Failure,
    Fit,
    HoldupName,
    InstanceState,
    Load,
    Operation,
    PlacementWish,
    QueueEntry,
    Refused,
    Reload,
    RemoteState,
    SavesState,
    Snapshot,
    SnapshotState,
    Unload,
)

HELD_UP: dict[HoldupName, str] = {
    "turn": gettext_noop("other models are loaded first"),
    "loader": gettext_noop("another load is under way"),
    "room": gettext_noop("another model makes way"),
    "busy": gettext_noop("all that could make way are answering"),
    "memory": gettext_noop("other programs use the memory that it needs"),
    "detached": gettext_noop("its clients have gone, and all that could make way are answering"),
    "measuring": gettext_noop("what it takes in memory is being measured"),
    "slot": gettext_noop("all its slots are answering"),
}
"""What waiters wait for, but for their model's own load."""

_MOST_ALIVE_FIRST = ("loaded", "loading", "sleeping", "draining", "stopping")

LOAD_WAIT_SECONDS = 900.0
"""How long a load may be waited for, the queue included."""


class ControlSocketScheduler:
    """Implements models_registry.ports.Scheduler."""

    def __init__(self, socket: Path, timeout_seconds: float = 5.0) -> None:
        self._socket = socket
        self._timeout_seconds = timeout_seconds

    def load(self, preset: str, *, wait: bool = False) -> bool:
        timeout_seconds = LOAD_WAIT_SECONDS if wait else None
        with asked("loaded", preset):
            told = self._call(Load(id=1, preset=preset, wait=wait), timeout_seconds)
        return "instance" in told

    def unload(self, preset: str, *, force: bool = False) -> bool:
        with asked("unloaded", preset, note="at once" if force else ""):
            told = self._call(Unload(id=1, preset=preset, force=force))
        return bool(told["instances"])

    def apply(self, preset: str) -> None:
        with asked("applied", preset):
            self._call(Apply(id=1, preset=preset))

    def measure(self, preset: str) -> None:
        with asked("measured", preset):
            self.order_measurement(preset)

    def order_measurement(self, preset: str) -> None:
        """Not by the socket: a row and a job, which wait for their process if it is away."""
        from .measuring.ordering import order_again  # it makes the queues

        order_again(preset)

    def reload(self, revision: int) -> None:
        self._call(Reload(id=1, revision=revision))

    def fit(self, preset: str) -> FitAnswer:
        return msgspec.convert(self._call(Fit(id=1, preset=preset)), FitAnswer)

    def fit_edited(self, spec: LaunchSpec, *, ladders: bool = False) -> FitAnswer:
        # Both cost what only this question needs.
        from .measuring.estimating import shape_data_of
        from .measuring.laddering import ladder_of

        shape, estimated = shape_data_of(spec)
        wish: PlacementWish = "now" if spec.placement == "now" else "best"
        ladder = ladder_of(spec) if ladders else None
        ask = Fit(1, spec.preset, shape, wish, estimated, ladder)
        return msgspec.convert(self._call(ask), FitAnswer)

    def tried(self, spec: LaunchSpec) -> AsyncGenerator[TrialNews]:
        from .measuring.estimating import shape_data_of
        from .trying import trial

        shape, estimated = shape_data_of(spec)
        with asked("tried", spec.preset, note="as it is being edited"):
            return trial(self._socket, spec, shape, estimated=estimated)

    def devices(self) -> tuple[str, ...]:
        told = msgspec.convert(self._call(Devices(id=1)), DevicesState)
        return tuple(device.device for device in told.devices)

    def statuses(self) -> dict[str, PresetStatus]:
        return statuses_of(msgspec.convert(self._call(Snapshot(id=1)), SnapshotState))

    def last_used(self, presets: Collection[str]) -> dict[str, datetime]:
        from .models import InstanceRecord  # apps.py reads this file before there are models

        at = Coalesce("ended_at", "started_at", output_field=DateTimeField())
        rows = InstanceRecord.objects.filter(preset__in=presets).order_by()
        return dict(rows.values("preset").annotate(at=Max(at)).values_list("preset", "at"))

    def command_line(self, preset: str, argv: Sequence[str]) -> tuple[str, ...]:
        from .runtime.engines.llama_server import command_line  # costs what only pages need

        return command_line(
            llama_server(),
            argv,
            preset=preset,
            address="<socket>",
            requests_per_slot=settings.CORRAL_OVERSUBSCRIBE,
        )

    def _call(
        self, operation: Operation, timeout_seconds: float | None = None
    ) -> dict[str, object]:
        try:
            return call(self._socket, operation, timeout_seconds or self._timeout_seconds)
        except Refused as refusal:
            if timeout_seconds and isinstance(refusal.__cause__, TimeoutError):
                raise SchedulerRefused(
                    f"it is not loaded after {timeout_seconds:.0f} s: see its state, or wait again",
                    "queue_timeout",
                ) from refusal
            if refusal.code == "scheduler_unavailable":
                raise SchedulerUnavailable(refusal.message) from refusal
            raise SchedulerRefused(
                refusal.message, refusal.code, refusal.retry_after_seconds
            ) from refusal


def statuses_of(snapshot: SnapshotState) -> dict[str, PresetStatus]:
    """One status per preset: of several instances the state of the one most alive."""
    instances: dict[str, list[InstanceState]] = {}
    for instance in snapshot.instances:
        instances.setdefault(instance.preset, []).append(instance)
    queue = {entry.preset: entry for entry in snapshot.queue}
    failures = {failure.preset: failure for failure in snapshot.failures}
    remotes = {remote.preset: remote for remote in snapshot.remotes}
    saves = {saved.preset: saved for saved in snapshot.saves}
    problems = snapshot.problems
    return {
        name: _status(
            instances.get(name, []),
            queue.get(name),
            failures.get(name),
            snapshot.measured.get(name, {}),
            saves.get(name),
            problems.get(name, ""),
        )
        for name in sorted({*instances, *queue, *failures, *snapshot.measured, *saves, *problems})
        if name not in remotes
    } | {
        name: _remote_status(remote, queue.get(name), failures.get(name))
        for name, remote in remotes.items()
    }


def _remote_status(
    remote: RemoteState, queued: QueueEntry | None, failure: Failure | None
) -> PresetStatus:
    return PresetStatus(
        state="remote",
        leases=remote.leases,
        waiters=queued.waiters if queued is not None else 0,
        failure=_failure(failure),
    )


def _status(
    instances: list[InstanceState],
    queued: QueueEntry | None,
    failure: Failure | None,
    need: Mapping[str, int],
    saves: SavesState | None,
    problem: str,
) -> PresetStatus:
    states = sorted((i.state for i in instances), key=_MOST_ALIVE_FIRST.index)
    holdup = queued.holdup if queued is not None else None
    return PresetStatus(
        state=states[0] if states else "unloaded",
        leases=sum(instance.leases for instance in instances),
        waiters=queued.waiters if queued is not None else 0,
        failure=_failure(failure),
        stale=any(instance.stale for instance in instances),
        progress=next((i.progress for i in instances if i.state == "loading"), None),
        exit=_exit(failure) if failure is not None else "",
        holdup=HELD_UP.get(holdup, "") if holdup is not None else "",
        running=tuple(map(running_of, instances)),
        need=need,
        saved=_saved(saves) if saves is not None else None,
        problem=problem,
    )


def _saved(saves: SavesState) -> Saved:
    return Saved(saves.files, saves.bytes, saves.hits, saves.seconds)


def _failure(failure: Failure | None) -> str:
    return f"{failure.reason}: {failure.words}" if failure is not None else ""


def running_of(instance: InstanceState) -> Running:
    return Running(
        instance=instance.instance,
        state=instance.state,
        kind=instance.placement,
        layers=instance.layers,
        context=instance.context,
        why=instance.why,
        predicted=instance.predicted,
        least=instance.least,
        surplus=instance.surplus,
        actual=instance.actual,
    )


def _exit(failure: Failure) -> str:
    """Empty for one that never ran."""
    if failure.signal is not None:
        return f"signal {failure.signal}"
    return f"exit code {failure.exit_code}" if failure.exit_code is not None else ""
