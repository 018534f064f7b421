"""Whether this process can serve, and what there is to say of it to who may know."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from proxy.carriage import Request
from proxy.client_socket import PERSON
from proxy.conf import ProxyConfig
from proxy.key_ring import KeyRing
from proxy.keys import has_key
from proxy.metrics.page import engine_version
from proxy.scopes import Scope
from proxy.underway import UnderWay
from proxy.usage.writer import UsageWriter
from scheduler.client import SchedulerClient
from scheduler.protocol import DevicesState, Refused, SnapshotState

T = TypeVar("T")

ANSWER_SECONDS = 2.0
STALE_SECONDS = 30.0
"""After which a device that could not be read, or jobs that showed no life, are worth a warning."""
LITTLE_DISK = 1 << 30
"""Bytes that are left of the disk."""

OK, NOT_READY = "ok", "not ready"


class Readiness:
    """Of one process. `reasons` keep it from serving; `warnings` do not, or not yet."""

    def __init__(
        self,
        config: ProxyConfig,
        under_way: UnderWay,
        keys: KeyRing,
        scheduler: Callable[[], Awaitable[SchedulerClient]],
        usage: UsageWriter,
    ) -> None:
        """`scheduler` raises Refused when the gateway takes nothing new."""
        self._config = config
        self._under_way = under_way
        self._keys = keys
        self._scheduler = scheduler
        self._usage = usage
        self._since = time.monotonic()

    async def lives(self, request: Request) -> dict[str, Any]:
        if not await self._may_see(request):
            return {"status": OK}
        return {"status": OK, "process": self._process()}

    async def can_serve(self, request: Request) -> tuple[int, dict[str, Any]]:
        """The status, and what to say."""
        reasons = await self._reasons()
        told: dict[str, Any] = {"status": NOT_READY if reasons else OK}
        if await self._may_see(request):
            told |= {"reasons": reasons, **await self._detail()}
        return (503 if reasons else 200), told

    def _process(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "uptime": round(time.monotonic() - self._since, 3)}

    async def _may_see(self, request: Request) -> bool:
        """More than the status: who has a key that may see what is loaded, or is in the admin's
        session. Anybody else is told as much as without a key: these paths are public."""
        try:
            if self._config.no_auth:
                return True
            if has_key(request.headers):
                caller = await self._keys.identify(request.headers)
                return not caller.scopes.isdisjoint((Scope.READ, Scope.ADMIN))
            person = request.scope.get(PERSON)
            return person is not None and await person() is not None
        except Refused:
            return False

    async def _reasons(self) -> list[str]:
        if self._under_way.draining.is_set():
            return ["the gateway is shutting down"]
        answers, database = await asyncio.gather(self._scheduler_answers(), self._keys.answers())
        reasons = [] if answers else ["the scheduler does not answer"]
        if not database:
            reasons.append("the database does not answer")
        try:
            self._usage.refuse_if_full()
        except Refused as refused:
            reasons.append(refused.message)
        return reasons

    async def _scheduler_answers(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await (await self._scheduler()).ping()
        except (Refused, TimeoutError):
            return False
        return True

    async def _asked(self, question: Callable[[SchedulerClient], Awaitable[T]]) -> T | None:
        """What the scheduler says; None when it does not, soon."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await question(await self._scheduler())
        except (Refused, TimeoutError):
            return None

    async def _detail(self) -> dict[str, Any]:
        begun = time.monotonic()
        live, devices = await asyncio.gather(
            self._asked(lambda scheduler: scheduler.snapshot()),
            self._asked(lambda scheduler: scheduler.devices()),
        )
        seconds = round(time.monotonic() - begun, 6)
        disk = await asyncio.to_thread(_disk_of, self._config)
        found = {
            "process": self._process(),
            "engine": engine_version(),
            "scheduler": _scheduler_of(live, seconds),
            "models": _models_of(live),
            "jobs": {"beat_ago": None if live is None else live.jobs_ago},
            "devices": _devices_of(devices),
            "usage": {"waiting": self._usage.waiting_bytes, "most": self._config.usage_journal},
            "disk": disk,
        }
        return {"warnings": _warnings_about(found, live), **found}


def _scheduler_of(live: SnapshotState | None, seconds: float) -> dict[str, Any] | None:
    if live is None:
        return None
    return {"pid": live.pid, "seconds": seconds, "shutting_down": live.shutting_down}


def _models_of(live: SnapshotState | None) -> dict[str, Any] | None:
    """How many, not which: not everybody may know of all."""
    if live is None:
        return None
    states = [instance.state for instance in live.instances]
    return {
        "most": live.models_max,
        "loaded": states.count("loaded"),
        "loading": states.count("loading"),
        "instances": len(states),
        "waiting": sum(entry.waiters for entry in live.queue),
        "failed": len(live.failures),
    }


def _devices_of(devices: DevicesState | None) -> list[dict[str, Any]] | None:
    if devices is None:
        return None
    return [{"device": each.device, "unread": each.stale or 0.0} for each in devices.devices]


def _disk_of(config: ProxyConfig) -> dict[str, int]:
    usage = shutil.disk_usage(config.usage_folder.parent)
    return {"total": usage.total, "free": usage.free}


def _warnings_about(found: dict[str, Any], live: SnapshotState | None) -> list[str]:
    warnings = []
    beat = found["jobs"]["beat_ago"]
    if live is not None and (beat is None or beat > STALE_SECONDS):
        warnings.append(
            "the jobs process shows no sign of life: usage is not brought into the database, "
            "nothing is downloaded or measured"
        )
    warnings += [
        f"{each['device']} could not be read for {each['unread']:.0f} s"
        for each in found["devices"] or ()
        if each["unread"] > STALE_SECONDS
    ]
    if found["disk"]["free"] < LITTLE_DISK:
        warnings.append(f"{found['disk']['free']} bytes are free on the disk of the state folder")
    return warnings
