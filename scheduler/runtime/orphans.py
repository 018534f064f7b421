"""Leases whose connection broke: nobody but the scheduler can see them end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from scheduler.core.events import Released, SlotsSeen
from scheduler.core.values import RequestId

if TYPE_CHECKING:
    from .instance_run import InstanceRun
    from .owner import Owner

SLOTS_EVERY_SECONDS = 0.5


class Orphans:
    """A child that tells how many of its slots work is asked; of any other one, a lease ends when
    the limit of a whole answer does: `answer_seconds`, unless its preset has one of its own."""

    def __init__(self, owner: Owner, answer_seconds: float) -> None:
        self._owner = owner
        self._answer_seconds = answer_seconds

    def add(self, run: InstanceRun, request: RequestId) -> None:
        """Call it in the owner's turn. The lease is abandoned already."""
        if not run.engine.tells_slots:
            self._owner.begin(self._end_in_time(run, request), f"orphan-{request}")
            return
        watched = bool(run.orphans)
        run.orphans.add(request)
        if not watched:
            self._owner.begin(self._watch_slots(run), f"slots-{run.instance}")

    async def _end_in_time(self, run: InstanceRun, request: RequestId) -> None:
        own = run.spec.answer_timeout_seconds
        try:
            async with asyncio.timeout(self._answer_seconds if own is None else own):
                await run.over.wait()
        except TimeoutError:
            self._owner.post(partial(self._owner.handle, Released(request)))

    async def _watch_slots(self, run: InstanceRun) -> None:
        """Until the last lease whose connection broke has ended."""
        while not run.over.is_set():
            instance = self._owner.planner.instances.get(run.instance)
            run.orphans &= instance.abandoned if instance is not None else set()
            if not run.orphans:
                return
            await asyncio.sleep(SLOTS_EVERY_SECONDS)
            # A sleeper is idle, and asking it would wake it.
            busy = 0 if run.asleep else await run.engine.busy_slots(run.address)
            if busy is not None and not run.over.is_set():
                self._owner.post(SlotsSeen(run.instance, busy))
                await self._owner.caught_up()
