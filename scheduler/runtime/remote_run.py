"""What stands for a preset that runs elsewhere, where a child would have its run."""

from __future__ import annotations

from dataclasses import dataclass

from models_registry.engines import EngineKind
from models_registry.launch import LaunchSpec
from scheduler.core.values import InstanceId
from scheduler.protocol import Refused, Remote


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """Of one grant: the preset as it then was."""

    instance: InstanceId
    spec: LaunchSpec

    @property
    def remote(self) -> Remote:
        engine = self.spec.engine
        return Remote(engine.url, engine.key)


def is_remote(spec: LaunchSpec) -> bool:
    return spec.engine.kind == EngineKind.UPSTREAM


def refuse_remote(spec: LaunchSpec) -> None:
    """Raises Refused where something is loaded or unloaded that never is."""
    if is_remote(spec):
        raise Refused(
            "invalid_request",
            f"the model '{spec.preset}' runs on a remote server: it needs no loading and cannot be "
            "unloaded",
        )
