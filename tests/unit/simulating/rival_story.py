"""A few events told to a rival's policy, by hand: who asks, what is ready, what has exited."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Decision, Grant, Kill, Reject, Start
from scheduler.core.events import (
    Cancelled,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.values import Exit, InstanceId, PresetName, PresetSpec, RequestId
from scheduler.simulating.policy import Policy

FAILED = Exit(code=1)
STOPPED = Exit(code=0)


class RivalStory:
    """One second passes with each event. `running` is what was started and has not exited."""

    def __init__(self, policy: Policy, *names: str) -> None:
        self.policy = policy
        self.now = 0.0
        self.requests = 0
        self.running: dict[str, InstanceId] = {}
        self.granted: list[int] = []
        self.rejected: list[int] = []
        self.starts: list[str] = []
        self.stopped: list[str] = []
        self.tell(PresetsChanged(tuple(PresetSpec(PresetName(name)) for name in names)))

    def tell(self, event: Event) -> list[Decision]:
        self.now += 1.0
        decisions = self.policy.handle(event, self.now)
        for decision in decisions:
            match decision:
                case Start(instance, preset):
                    self.running[preset.name] = instance
                    self.starts.append(preset.name)
                case Grant(request):
                    self.granted.append(request)
                case Reject(request):
                    self.rejected.append(request)
                case AskExit(instance) | Kill(instance):
                    self.stopped.append(self._name(instance))
                case _:
                    pass
        return decisions

    def _name(self, instance: InstanceId) -> str:
        return next(name for name, number in self.running.items() if number == instance)

    def ask(self, name: str) -> int:
        self.requests += 1
        self.tell(Requested(RequestId(self.requests), PresetName(name), self.now))
        return self.requests

    def ready(self, name: str) -> None:
        self.tell(ReadyReported(self.running[name]))

    def exited(self, name: str, exit: Exit = STOPPED) -> None:
        self.tell(Exited(self.running.pop(name), exit))

    def release(self, request: int) -> None:
        self.tell(Released(RequestId(request)))

    def leave(self, request: int) -> None:
        self.tell(Cancelled(RequestId(request)))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.tell(Ticked())

    def load(self, name: str) -> int:
        """Asked for, loaded and granted."""
        request = self.ask(name)
        self.ready(name)
        assert request in self.granted
        return request

    def loaded_and_idle(self, name: str) -> None:
        self.release(self.load(name))

    def keep_busy(self, name: str, held: int, times: int = 50) -> int:
        """Before one answer ends the next is asked for: never idle."""
        for _ in range(times):
            following = self.ask(name)
            assert following in self.granted
            self.release(held)
            held = following
        return held
