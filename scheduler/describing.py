"""What is live, as the management API shows it."""

from __future__ import annotations

from typing import Any

import msgspec
from django.conf import settings

from models_registry.revision import registry_revision

from .client import call
from .protocol import Refused, Snapshot, SnapshotState


def live_snapshot() -> SnapshotState:
    """Raises Refused when the scheduler does not answer."""
    return msgspec.convert(call(settings.CORRAL_CONTROL_SOCKET, Snapshot(id=1)), SnapshotState)


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
    }
