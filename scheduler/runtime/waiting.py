"""Who waits for an answer, and who holds which lease: the owner's side of the control socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.values import Refusal, RequestId
from scheduler.protocol import Refused

from .instance_run import InstanceRun
from .refusals import refused

Answer = Callable[[InstanceRun | Refused], None]
"""Called once, in the owner's turn: with the instance, or with why not."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    preset: str
    answer: Answer
    takes_slot: bool


class Waiting:
    def __init__(self) -> None:
        self._waiters: dict[RequestId, _Waiter] = {}
        self._leases: dict[RequestId, InstanceRun] = {}

    def add(
        self, request: RequestId, preset: str, answer: Answer, *, takes_slot: bool = True
    ) -> None:
        self._waiters[request] = _Waiter(preset, answer, takes_slot)

    def waits(self, request: RequestId) -> bool:
        return request in self._waiters

    def granted(self, request: RequestId, run: InstanceRun) -> None:
        """Harmless for one who has left: the core hears of that by an event of its own."""
        waiter = self._waiters.pop(request, None)
        if waiter is None:
            return
        if waiter.takes_slot:
            self._leases[request] = run
        waiter.answer(run)

    def rejected(self, request: RequestId, refusal: Refusal, known: Sequence[str]) -> str | None:
        """The name of the preset that it waited for; None when it has left."""
        waiter = self._waiters.pop(request, None)
        if waiter is None:
            return None
        waiter.answer(refused(refusal, waiter.preset, known))
        return waiter.preset

    def leave(self, request: RequestId) -> InstanceRun | None:
        """It waits no more and holds nothing more. The instance whose lease it held, if it did."""
        self._waiters.pop(request, None)
        return self._leases.pop(request, None)
