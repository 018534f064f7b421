"""What the gateway says of itself: its models, its properties. Never a guess.

Entries have the shape of llama.cpp's router. `status.value` keeps to that router's words; what it
has no word for (draining, stopping, queued) stands in `status.detail`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models_registry.launch import launch_specs
from models_registry.models import Preset, Source
from proxy.conf import ProxyConfig
from proxy.queries import DatabaseThread, Shared
from scheduler.client import SchedulerClient
from scheduler.protocol import Failure, InstanceState, QueueEntry, Refused, SnapshotState

ANSWER_SECONDS = 5.0
"""How long the scheduler may take: a list of models is asked for by people and by probes."""

SPACING_SECONDS = 0.2
"""All who ask for the list within this time share one query."""

_MOST_USABLE_FIRST = ("loaded", "sleeping", "loading", "draining", "stopping")
# While a child goes, it still holds its memory: llama.cpp's router, too, calls it loaded.
_VALUES = {"draining": "loaded", "stopping": "loaded"}


@dataclass(frozen=True, slots=True)
class Listed:
    """A preset as the registry knows it. `problem` says why it cannot be started, or is empty."""

    name: str
    aliases: tuple[str, ...]
    source: str
    created: int
    args: tuple[str, ...]
    problem: str


async def snapshot(scheduler: SchedulerClient) -> SnapshotState:
    """Raises Refused `scheduler_unavailable`."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await scheduler.snapshot()
    except TimeoutError as error:
        raise Refused(
            "scheduler_unavailable",
            "The scheduler does not answer: what is loaded is not known.",
            retry_after_seconds=1.0,
        ) from error


class ModelList:
    """GET /models, which clients poll and which reads the whole registry."""

    def __init__(self) -> None:
        self._thread = DatabaseThread("model-list")
        self._rows = Shared(self._thread, registered, SPACING_SECONDS)

    async def body(self, scheduler: SchedulerClient) -> dict[str, Any]:
        """Raises Refused when the scheduler is away."""
        return await models(scheduler, await self._rows.ask())

    async def close(self) -> None:
        await self._rows.close()
        await self._thread.close()


async def models(scheduler: SchedulerClient, rows: list[Listed]) -> dict[str, Any]:
    live = await snapshot(scheduler)  # last: it is true for a moment only
    instances = _by_preset(live.instances)
    queue = {entry.preset: entry for entry in live.queue}
    failures = {failure.preset: failure for failure in live.failures}
    entries = [
        entry(row, instances.get(row.name), queue.get(row.name), failures.get(row.name))
        for row in rows
    ]
    return {"object": "list", "data": entries}


def registered() -> list[Listed]:
    """Every preset, by name."""
    sources = dict(Preset.objects.values_list("name", "source"))
    return [
        Listed(
            name=spec.preset,
            aliases=tuple(sorted(spec.aliases)),
            source="models_dir" if sources.get(spec.preset) == Source.MODELS_DIR else "preset",
            created=_modified(spec.model_path),
            args=spec.argv,
            problem=spec.problem,
        )
        for spec in sorted(launch_specs(), key=lambda spec: spec.preset)
    ]


def entry(
    row: Listed,
    instance: InstanceState | None,
    queued: QueueEntry | None,
    failure: Failure | None,
) -> dict[str, Any]:
    """One entry of the list."""
    found: dict[str, Any] = {
        "id": row.name,
        "aliases": list(row.aliases),
        "tags": [],
        "object": "model",
        "owned_by": "llamacpp",
        "created": row.created,
        "source": row.source,
        "can_remove": False,
    }
    if instance is None:
        found["status"] = _not_running(row, queued, failure)
        return found
    found["status"] = _running(row, instance)
    if instance.meta:
        found.update(_reported(instance.meta))
    return found


def props(config: ProxyConfig) -> dict[str, Any]:
    """The body of GET /props without a model: clients know a router by its `role`."""
    return {
        "role": "router",
        "max_instances": config.models_max,
        "models_autoload": config.models_autoload,
        "model_alias": "llama-server",
        "model_path": "none",
        "default_generation_settings": {"params": None, "n_ctx": 0},
        "ui_settings": {},
        "build_info": "corral",
        "cors_proxy_enabled": False,
    }


def _by_preset(instances: list[InstanceState]) -> Mapping[str, InstanceState]:
    """The most usable instance of each: one may go while its successor loads."""
    best: dict[str, InstanceState] = {}
    for instance in sorted(instances, key=lambda i: _MOST_USABLE_FIRST.index(i.state)):
        best.setdefault(instance.preset, instance)
    return best


def _running(row: Listed, instance: InstanceState) -> dict[str, Any]:
    state = instance.state
    status: dict[str, Any] = {
        "value": _VALUES.get(state, state),
        "args": instance.args or list(row.args),
    }
    if state in _VALUES:
        status["detail"] = state
    if state == "loading" and instance.progress is not None:
        status["progress"] = {"value": instance.progress}
    return status


def _not_running(row: Listed, queued: QueueEntry | None, failure: Failure | None) -> dict[str, Any]:
    status: dict[str, Any] = {"value": "unloaded", "args": list(row.args)}
    if queued is not None:
        status["detail"] = "queued"
    if failure is not None:
        status["failed"] = True
        if failure.exit_code is not None:
            status["exit_code"] = failure.exit_code
        elif failure.signal is not None:
            status["exit_code"] = 128 + failure.signal  # as a shell says it
        status["reason"] = ": ".join(text for text in (failure.reason, failure.words) if text)
    elif row.problem:
        status["failed"] = True
        status["reason"] = row.problem
    return status


def _reported(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What a child said of its model: all of it, or only the figures."""
    figures = meta.get("meta")
    if not isinstance(figures, dict):
        return {"meta": dict(meta)}
    reported: dict[str, Any] = {"meta": figures}
    if isinstance(meta.get("architecture"), dict):
        reported["architecture"] = meta["architecture"]
    return reported


def _modified(path: str) -> int:
    try:
        return int(Path(path).stat().st_mtime)
    except OSError:
        return 0  # a missing file is said in the status
