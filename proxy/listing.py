"""What the gateway says of itself: its models, its properties. Never a guess.

Entries have the shape of llama.cpp's router. `status.value` keeps to that router's words; what it
has no word for (draining, stopping, queued) stands in `status.detail`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from models_registry.names import Names
from models_registry.near_names import near_names
from proxy.callers import ANYBODY, Caller
from proxy.conf import ProxyConfig
from proxy.downloads import Downloads
from proxy.offered import Offer, Offered, problem_told
from proxy.queries import DatabaseThread, Remembered, Shared
from proxy.scopes import Scope
from scheduler.client import SchedulerClient
from scheduler.protocol import (
    Failure,
    InstanceState,
    QueueEntry,
    Refused,
    SnapshotState,
)

ANSWER_SECONDS = 5.0
"""How long the scheduler may take: a list of models is asked for by people and by probes."""

SPACING_SECONDS = 0.2
"""All who ask for the list within this time share one query."""

_MOST_USABLE_FIRST = ("loaded", "sleeping", "loading", "draining", "stopping")
# While a child goes, it still holds its memory: llama.cpp's router, too, calls it loaded.
_VALUES = {"draining": "loaded", "stopping": "loaded"}


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
    """GET /models and GET /models/{id}, which clients poll."""

    def __init__(self, downloads: Downloads) -> None:
        self._downloads = downloads
        self._thread = DatabaseThread("model-list")
        self._presets = Remembered(Shared(self._thread, Offer().presets, SPACING_SECONDS))

    async def body(self, scheduler: SchedulerClient, caller: Caller = ANYBODY) -> dict[str, Any]:
        """Raises Refused when the database is away from the start on, or the scheduler, which is
        asked for those who may read."""
        presets = await self._presets.ask()
        coming = await self._downloads.entries()
        mine = [each for each in presets if each.listed and caller.may_use(each.names)]
        there = {each.name for each in presets}
        new = sorted(name for name in coming if name not in there and caller.may_use((name,)))
        if Scope.READ in caller.scopes:
            live = Live.of(await snapshot(scheduler))  # last: it is true for a moment only
            listed = [*map(live.entry, mine), *(coming[name] for name in new)]
        else:
            listed = [*(each.entry for each in mine), *(_quiet(coming[name]) for name in new)]
        return {"object": "list", "data": listed}

    async def one(
        self, scheduler: SchedulerClient, name: str, caller: Caller
    ) -> dict[str, Any] | msgspec.Raw:
        """What a request for `name` would get, listed or not. Raises Refused `model_not_found`
        too."""
        found = await self._meant(name, caller)
        if Scope.READ not in caller.scopes:
            return found.entry if isinstance(found, Offered) else _quiet(found)
        if not isinstance(found, Offered):
            return found
        return Live.of(await snapshot(scheduler)).entry(found)

    async def find(self, name: str, caller: Caller) -> Offered:
        """The preset that answers requests for `name`. Raises Refused."""
        found = await self._meant(name, caller)
        if not isinstance(found, Offered):
            raise Refused(
                "model_downloading", f"{name!r} is being fetched.", retry_after_seconds=5.0
            )
        return found

    async def presets(self) -> list[Offered]:
        """By name, listed or not."""
        return await self._presets.ask()

    async def names(self) -> dict[str, tuple[str, ...]]:
        """By preset, all its names."""
        return {each.name: each.names for each in await self._presets.ask()}

    async def _meant(self, name: str, caller: Caller) -> Offered | dict[str, Any]:
        """An entry of the list for what is being fetched. Raises Refused, in the same words for
        what is not there and for what the caller may not use."""
        own = caller.own_names(name)
        presets = {each.name: each for each in await self._presets.ask()}
        coming = await self._downloads.entries()
        aliases = {alias: each.name for each in presets.values() for alias in each.aliases}
        names = Names(presets, aliases, coming)
        meant = names.meant(name, exact=own.exact, wildcard=own.wildcard, default=own.default)
        found = presets.get(names.preset(meant) or "")
        if found is None and meant in coming and caller.may_use((meant,)):
            return coming[meant]
        if found is None or not caller.may_use(found.names):
            meant = meant if found is None else name
            near = near_names(meant, [*_written(names, presets, caller)])
            meaning = f"did you mean {' or '.join(near)}? " if near else ""
            raise Refused(
                "model_not_found",
                f"There is no model {meant!r}: {meaning}GET /v1/models lists them.",
            )
        return found

    async def close(self) -> None:
        await self._presets.close()
        await self._thread.close()


@dataclass(frozen=True, slots=True)
class Live:
    """What the scheduler says of presets, by their names."""

    instances: Mapping[str, InstanceState]
    queue: Mapping[str, QueueEntry]
    failures: Mapping[str, Failure]

    @classmethod
    def of(cls, state: SnapshotState) -> Live:
        return cls(
            _by_preset(state.instances),
            {entry.preset: entry for entry in state.queue},
            {failure.preset: failure for failure in state.failures},
        )

    def entry(self, preset: Offered) -> dict[str, Any] | msgspec.Raw:
        """One entry of the list."""
        name = preset.name
        instance = self.instances.get(name)
        if preset.remote:
            failure = self.failures.get(name)
            if failure is None:
                return preset.unloaded  # loaded, whoever waits for it
            return {**preset.entry, "status": _not_running(preset, None, failure)}
        if instance is None and name not in self.queue and name not in self.failures:
            return preset.unloaded
        if instance is None:
            status = _not_running(preset, self.queue.get(name), self.failures.get(name))
            return {**preset.entry, "status": status}
        reported = _reported(instance.meta) if instance.meta else {}
        return {**preset.entry, **reported, "status": _running(preset, instance)}


def _written(names: Names, presets: Mapping[str, Offered], caller: Caller) -> Iterator[str]:
    """What the caller may write."""
    for name in names.written():
        preset = presets.get(names.preset(name) or "")
        if preset is None or caller.may_use(preset.names):
            yield name


def _quiet(entry: dict[str, Any]) -> dict[str, Any]:
    """Without what becomes of it."""
    return {name: value for name, value in entry.items() if name != "status"}


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


def most_usable(instances: list[InstanceState]) -> InstanceState | None:
    return min(instances, key=lambda i: _MOST_USABLE_FIRST.index(i.state), default=None)


def value_of(state: str) -> str:
    """In the words of llama.cpp's router."""
    return _VALUES.get(state, state)


def exit_code_of(exit_code: int | None, signal: int | None) -> int | None:
    """As a shell says it."""
    return 128 + signal if exit_code is None and signal is not None else exit_code


def _running(preset: Offered, instance: InstanceState) -> dict[str, Any]:
    state = instance.state
    status = {"value": value_of(state), **preset.status}
    if instance.args:
        status["args"] = instance.args
    if state in _VALUES:
        status["detail"] = state
    if state == "loading" and instance.progress is not None:
        status["progress"] = {"value": instance.progress}
    return status


def _not_running(
    preset: Offered, queued: QueueEntry | None, failure: Failure | None
) -> dict[str, Any]:
    status: dict[str, Any] = {"value": "unloaded", **preset.status}
    if queued is not None:
        status["detail"] = "queued"
    if failure is not None:
        status["failed"] = True
        if (code := exit_code_of(failure.exit_code, failure.signal)) is not None:
            status["exit_code"] = code
        status["reason"] = ": ".join(text for text in (failure.reason, failure.words) if text)
    elif preset.problem:
        status |= problem_told(preset.problem)
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
