"""A machine in virtual time: its children load, answer and exit by themselves, its clients ask.

The planner is ticked once a second and at each timer that it sets, as by the shell.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from scheduler.core.decisions import (
    AskExit,
    Decision,
    Grant,
    Kill,
    Reject,
    Revoke,
    Start,
    Wake,
    WakeAt,
)
from scheduler.core.events import (
    DevicesRead,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.planner import Planner
from scheduler.core.values import (
    NO_TENANT,
    Config,
    Exit,
    Kind,
    PresetSpec,
    Priority,
    Refusal,
    TenantId,
)

from .memory import readings
from .story import preset

TOKENS_PER_SECOND = 50


@dataclass
class Client:
    """Asks for one model, reads the answer for so many seconds, and asks again."""

    preset: str
    seconds: float = 4.0
    tenant: TenantId = NO_TENANT
    weight: float = 1.0
    priority: Priority = Priority.NORMAL
    again: bool = True


@dataclass
class Asked:
    """What became of one request."""

    client: Client
    arrived: float
    granted: float | None = None
    ended: float | None = None
    refusal: Refusal | None = None

    @property
    def waited(self) -> float:
        assert self.granted is not None, f"{self.client} was not served"
        return self.granted - self.arrived


class Stage:
    def __init__(
        self,
        *presets: str | PresetSpec,
        load_seconds: float = 2.0,
        exit_seconds: float = 0.5,
        capacity: dict[str, int] | None = None,
        **config,
    ) -> None:
        self.planner = Planner(Config(**config))
        self.load_seconds, self.exit_seconds = load_seconds, exit_seconds
        self.now = 0.0
        self.log: list[tuple[float, Decision]] = []
        self.asked: dict[int, Asked] = {}
        self._numbers = count(1)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        specs = tuple(preset(p) if isinstance(p, str) else p for p in presets)
        self.tell(PresetsChanged(specs))
        if capacity:
            self.tell(DevicesRead(readings(capacity.items())))
        self._tick_each_second()

    # Clients --------------------------------------------------------------------

    def ask(self, client: Client) -> int:
        request = next(self._numbers)
        self.asked[request] = Asked(client, self.now)
        tenant, weight, priority = client.tenant, client.weight, client.priority
        self.tell(Requested(request, client.preset, self.now, Kind.POST, tenant, weight, priority))
        return request

    def comes(self, when: float, client: Client) -> None:
        """Asks at that time, and again after each answer unless it wants one only."""
        self._at(when, lambda: self.ask(client))

    def of(self, name: str) -> list[Asked]:
        return [asked for asked in self.asked.values() if asked.client.preset == name]

    def seconds_served(self, tenant: str, *, since: float = 0.0) -> float:
        return sum(
            asked.client.seconds
            for asked in self.asked.values()
            if asked.client.tenant == tenant and (asked.ended or 0.0) > since
        )

    def when(self, kind: type[Decision]) -> list[tuple[float, Decision]]:
        return [(now, decision) for now, decision in self.log if isinstance(decision, kind)]

    # Time -------------------------------------------------------------------------

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, happens = heapq.heappop(self._due)
            happens()
        self.now = until

    def _at(self, when: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._numbers), happens))

    def _in(self, seconds: float, event: Event) -> None:
        self._at(self.now + seconds, lambda: self.tell(event))

    def _tick_each_second(self) -> None:
        self.tell(Ticked())
        self._at(self.now + 1.0, self._tick_each_second)

    # The machine ------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        for decision in self.planner.handle(event, self.now):
            self.log.append((self.now, decision))
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Start(instance) | Wake(instance):
                self._in(self.load_seconds, ReadyReported(instance))
            case AskExit(instance) | Kill(instance):
                self._in(self.exit_seconds, Exited(instance, Exit(code=0)))
            case Grant(request):
                self._answer(request)
            case Reject(request, refusal):
                self.asked[request].refusal = refusal
            case Revoke(request):
                raise AssertionError(f"the answer of {request} was cut")
            case WakeAt(when):
                self._at(when, lambda: self.tell(Ticked()))

    def _answer(self, request: int) -> None:
        asked = self.asked[request]
        asked.granted = self.now
        self._at(self.now + asked.client.seconds, lambda: self._end(request))

    def _end(self, request: int) -> None:
        asked = self.asked[request]
        asked.ended = self.now
        self.tell(Released(request, int(asked.client.seconds * TOKENS_PER_SECOND)))
        if asked.client.again:
            self.ask(asked.client)
