"""What is live, as the management API shows it."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from django.conf import settings

from models_registry.revision import registry_revision

from .client import call
from .protocol import (
    REQUEST_TEXT,
    Devices,
    DevicesState,
    DeviceState,
    Explain,
    Explained,
    Operation,
    Refused,
    Snapshot,
    SnapshotState,
    Waiters,
    WaitersPage,
)

T = TypeVar("T")


def live_snapshot() -> SnapshotState:
    """Raises Refused when the scheduler does not answer."""
    return _told(Snapshot(id=1), SnapshotState)


def live_devices() -> list[DeviceState]:
    """Raises Refused when the scheduler does not answer."""
    return _told(Devices(id=1), DevicesState).devices


def waiters_of(preset: str, *, limit: int, offset: int) -> WaitersPage:
    """Raises Refused, also for a preset that does not exist."""
    return _told(Waiters(1, preset, limit, offset), WaitersPage)


def explained(request: str) -> Explained:
    """Raises Refused, also for a request that neither waits nor is being answered."""
    if not re.fullmatch(REQUEST_TEXT, request):
        raise Refused("not_found", "no request has such an id: it is that of `x-request-id`")
    return _told(Explain(id=1, request=request), Explained)


def _told(operation: Operation, type: type[T]) -> T:
    return msgspec.convert(call(settings.CORRAL_CONTROL_SOCKET, operation), type)


def status() -> dict[str, Any]:
    try:
        snapshot, problem = live_snapshot(), ""
    except Refused as refusal:
        snapshot, problem = None, refusal.message
    return {
        "revision": registry_revision(),
        "scheduler": _counted(snapshot) if snapshot is not None else None,
        "problem": problem,
    }


def _counted(snapshot: SnapshotState) -> dict[str, Any]:
    told = {name: getattr(snapshot, name) for name in ("pid", "revision", "models_max")}
    return told | {
        "shutting_down": snapshot.shutting_down,
        "instances": len(snapshot.instances),
        "queue": len(snapshot.queue),
        "failures": [msgspec.to_builtins(failure) for failure in snapshot.failures],
        "saves": [msgspec.to_builtins(saves) for saves in snapshot.saves],
    }
