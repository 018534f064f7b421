"""Presets of which nothing can be started any more, and who waits for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scheduler.core.events import Cancelled

from .offer import problem_of
from .record import Decided
from .refusals import preset_invalid

if TYPE_CHECKING:
    from .owner import Owner

logger = logging.getLogger(__name__)


def refuse_for_what_cannot_start(owner: Owner) -> None:
    """L5: who waits for it is told why at once, and nobody makes room for it."""
    for name in sorted(owner.waiting.presets()):
        spec = owner.offer.specs.get(name)
        problem = "" if spec is None or owner.is_running(name) else problem_of(spec)
        if not problem:
            continue
        refusal = preset_invalid(name, problem)
        for request in owner.waiting.refuse(name, refusal):
            owner.limiting.refund(request)
            owner.handle(Cancelled(request))
        owner.record(Decided("reject", name, None, refusal.code, {"problem": problem}))
        logger.info("refuse the requests for %s: %s", name, problem)
