"""All that is live, as one value for the control socket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from models_registry.engines import EngineKind
from scheduler.core.failures import Failure as CoreFailure
from scheduler.core.instances import Instance
from scheduler.core.placing import need_of
from scheduler.core.sizes import loaded
from scheduler.core.timers import still_kept
from scheduler.core.values import Code, PresetName
from scheduler.memory_states import PlacementKind
from scheduler.protocol import Failure, InstanceState, RemoteState, SnapshotState

from .explaining import queue
from .memory import by_device

if TYPE_CHECKING:
    from .instance_run import InstanceRun
    from .owner import Owner


def snapshot(owner: Owner, models_max: int, jobs_beat: float | None = None) -> SnapshotState:
    """Call it in the owner's turn. `jobs_beat`: when the jobs process last showed life."""
    now = owner.clock()
    return SnapshotState(
        pid=os.getpid(),
        revision=owner.offer.revision,
        models_max=models_max,
        shutting_down=owner.shutting_down,
        instances=_instances(owner, now),
        queue=queue(owner, now),
        remotes=_remotes(owner, now),
        failures=_failures(owner, now),
        measured={
            name: dict(devices)
            for name, spec in sorted(owner.offer.specs.items())
            if (devices := owner.figures.of(spec)) is not None
        },
        problems={
            name: spec.problem
            for name, spec in sorted(owner.offer.specs.items())
            if spec.problem and name not in owner.offer.trials
        },
        jobs_ago=None if jobs_beat is None else max(0.0, now - jobs_beat),
    )


def _instances(owner: Owner, now: float) -> list[InstanceState]:
    found = (instance_state(owner, i, now) for _, i in sorted(owner.planner.instances.items()))
    return [state for state in found if state is not None]


def _remotes(owner: Owner, now: float) -> list[RemoteState]:
    return [
        RemoteState(
            preset=name,
            leases=len(remote.leases),
            parallel=remote.preset.parallel,
            used_ago=max(0.0, now - remote.last_used) if remote.used else None,
        )
        for name, remote in sorted(owner.planner.remotes.items())
    ]


def instance_state(owner: Owner, instance: Instance, now: float) -> InstanceState | None:
    """None for one whose run is over."""
    number = instance.id
    run = owner.runs.get(number)
    if run is None:
        return None
    return InstanceState(
        instance=number,
        preset=instance.preset.name,
        state=str(instance.state),
        leases=len(instance.leases),
        abandoned=len(instance.abandoned),
        parallel=instance.preset.parallel,
        pid=run.pid,
        stale=instance.stale,
        started_ago=max(0.0, now - instance.started_at),
        used_ago=max(0.0, now - instance.last_used),
        progress=run.progress,
        args=_args(run),
        meta=run.meta,
        placement=cast(PlacementKind, instance.grant.placement.kind.value)
        if instance.grant.need
        else None,
        layers={str(d): count for d, count in instance.grant.placement.layers},
        context=instance.grant.context,
        why=run.why,
        predicted=by_device(loaded(instance.grant.need)),
        least=_least(instance),
        surplus={str(device): size for device, size in instance.grant.surplus},
        actual={} if instance.allocated is None else by_device(instance.allocated),
        held=by_device(owner.planner.ledger.held[number]),
        kept=still_kept(instance, owner.planner.config, now),
        pinned=instance.preset.pinned,
    )


def _args(run: InstanceRun) -> list[str]:
    """Clients are shown them. A command line of a person's own may hold secrets, and is no flags of
    llama-server."""
    return list(run.argv) if run.spec.engine.kind == EngineKind.LLAMA_SERVER else []


def _reason(failure: CoreFailure) -> str:
    if failure.code is Code.UPSTREAM_UNAVAILABLE:
        return str(failure.code)
    return "out_of_memory" if failure.exit.out_of_memory else "failed_to_load"


def _least(instance: Instance) -> dict[str, int]:
    """Where it is, at its smallest context."""
    if instance.shape is None or not instance.grant.need:
        return {}
    return by_device(loaded(need_of(instance.shape, instance.grant.placement, 0)))


def _failures(owner: Owner, now: float) -> list[Failure]:
    found = (failure_of(owner, preset, now) for preset in sorted(owner.planner.failures))
    return [failure for failure in found if failure is not None]


def failure_of(owner: Owner, preset: PresetName, now: float) -> Failure | None:
    """How its last load failed, if it did."""
    failure = owner.planner.failures.get(preset)
    if failure is None:
        return None
    return Failure(
        preset=preset,
        reason=_reason(failure),
        exit_code=failure.exit.code,
        signal=failure.exit.signal,
        words=failure.exit.words,
        failed_ago=max(0.0, now - failure.failed_at),
        retry_after=max(0.0, failure.until - now),
    )
