"""What the models of rivals have in common: children with numbers, and bytes on devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from scheduler.core.decisions import AskExit, Kill, Reason, Start
from scheduler.core.sizes import Bytes, DeviceId
from scheduler.core.values import InstanceId, PresetName, PresetSpec
from scheduler.simulating.memory import smallest


class Running:
    """A child as a rival counts it."""

    __slots__ = ("instance", "last_used", "leases", "ready", "spec", "stopping")

    def __init__(self, instance: InstanceId, spec: PresetSpec, now: float) -> None:
        self.instance = instance
        self.spec = spec
        self.last_used = now
        self.leases = 0  # requests handed to it whose clients are still there
        self.ready = False
        self.stopping = False


class Runners:
    """The children, by preset and by number: at most one for a preset."""

    def __init__(self) -> None:
        self.by_preset: dict[PresetName, Running] = {}
        self.by_instance: dict[InstanceId, Running] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self.by_preset)

    def start(self, spec: PresetSpec, now: float) -> Start:
        runner = Running(InstanceId(next(self._numbers)), spec, now)
        self.by_preset[spec.name] = runner
        self.by_instance[runner.instance] = runner
        return Start(runner.instance, spec, Reason.REQUESTED)

    def exited(self, instance: InstanceId) -> Running | None:
        runner = self.by_instance.pop(instance, None)
        if runner is not None and self.by_preset.get(runner.spec.name) is runner:
            del self.by_preset[runner.spec.name]
        return runner


def ask_exit(runner: Running, reason: Reason, for_preset: PresetName | None = None) -> AskExit:
    runner.stopping = True
    return AskExit(runner.instance, reason, for_preset)


def kill(runner: Running, reason: Reason, for_preset: PresetName | None = None) -> Kill:
    runner.stopping = True
    return Kill(runner.instance, reason, for_preset)


def fits(need: Bytes, runners: Iterable[Running], capacity: Mapping[DeviceId, int]) -> bool:
    """Beside all of these, those on their way out included."""
    if not capacity:
        return True
    free = dict(capacity)
    for runner in runners:
        for device, amount in smallest(runner.spec):
            if device in free:
                free[device] -= amount
    return all(free.get(device, amount) >= amount for device, amount in need)
