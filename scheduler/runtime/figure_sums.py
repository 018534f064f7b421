"""What all processes have counted, in one place."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.core.states import State
from scheduler.protocol import Figures, FiguresState, Tell

from .owner import Owner

_ANSWERING = frozenset({State.LOADED, State.DRAINING, State.SLEEPING})


class FigureSums:
    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def take(
        self,
        operation: Tell | Figures,
        done: Callable[[], None],
        told: Callable[[FiguresState], None],
    ) -> None:
        if isinstance(operation, Tell):
            self._owner.tally.add(operation.tallied)
            done()
        else:
            self._owner.post(lambda: told(self._state()))

    def _state(self) -> FiguresState:
        instances = self._owner.planner.instances
        addresses = [
            (run.spec.preset, int(number), run.address)
            for number, run in self._owner.runs.items()
            if number in instances and instances[number].state in _ANSWERING
        ]
        return FiguresState(self._owner.tally.whole(), addresses)
