"""What is compared: a policy takes the core's events and answers with the core's decisions."""

from __future__ import annotations

from typing import Protocol

from scheduler.core.decisions import Decision
from scheduler.core.events import Event


class Policy(Protocol):
    """`scheduler.core.planner.Planner` is one; the models of rivals are others.

    The first event is PresetsChanged with all models, the most asked for first; DevicesRead follows
    where memory is simulated. Times are seconds of virtual time, never decreasing."""

    def handle(self, event: Event, now: float) -> list[Decision]: ...
