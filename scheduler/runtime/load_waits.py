"""How much of a request's wait was its model's load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.core.values import RequestId

from .waiting import Run

if TYPE_CHECKING:
    from .owner import Owner


def load_wait(owner: Owner, request: RequestId, run: Run) -> float:
    """Seconds, for one that is granted at this moment: from its arrival, or the beginning of the
    load if that came later, to when its instance was ready."""
    asked, instance = owner.waiting.get(request), owner.planner.instances.get(run.instance)
    if asked is None or instance is None:  # it has left meanwhile, or nothing is ever loaded
        return 0.0
    return max(0.0, round(instance.loaded_at - max(asked.arrived, instance.load_began_at), 6))
