"""What one instance's child is watched for: that it answers, and that its computation gets on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from scheduler.core.events import Silent

from .health import HealthRules, HealthWatch

if TYPE_CHECKING:
    from .instance_run import InstanceRun

logger = logging.getLogger(__name__)


def watches_of(
    run: InstanceRun, rules: HealthRules, works: Callable[[], bool]
) -> dict[str, HealthWatch]:
    """By name. `works` is whether somebody has sent it something that it has not answered."""

    def hangs() -> None:
        run.tell(Silent(run.instance))

    def stuck() -> None:
        seconds = rules.steps.every_seconds * rules.steps.tries
        logger.warning("%s: a step of its computation has not ended in %g s", run.name, seconds)
        hangs()

    def should_get_on() -> bool:
        # A sleeper would be woken by the question, and what nobody uses kept awake.
        return run.serves and run.should_answer() and works()

    health = HealthWatch(
        rules.alive,
        ask=lambda: run.engine.is_alive(run.address),
        should_answer=run.should_answer,
        lines=lambda: run.lines,
        hangs=hangs,
    )
    steps = HealthWatch(
        rules.steps,
        ask=lambda: run.engine.gets_on(run.address),
        should_answer=should_get_on,
        lines=lambda: 0,  # what is said beside a step does not end it
        hangs=stuck,
    )
    return {"health": health, "steps": steps} if run.engine.tells_slots else {"health": health}
