"""What stands between a child's `ready` and its clients: a token, where that is asked for, and what
earlier instances have left for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from .child_lines import ChildState

if TYPE_CHECKING:
    from .instance_run import InstanceRun

logger = logging.getLogger(__name__)

PROBE_FAILED = "it loaded, and generated nothing"

Works = Callable[[], Awaitable[None]]
BeforeReady = Callable[["InstanceRun"], Works | None]
"""What is to be done before clients come to it, if anything."""


class MakingReady:
    """What the child says meanwhile is told afterwards. How long it may take is the load's own
    bound."""

    task: asyncio.Task[None] | None = None
    is_probing = False
    _is_on = False  # also for ever, of a child that generates nothing and is killed
    _said: ChildState | None = None
    _failed = ""

    def __init__(
        self,
        run: InstanceRun,
        before_ready: BeforeReady,
        *,
        enter: Callable[[ChildState], None],
        kill: Callable[[], None],
    ) -> None:
        self._run = run
        self._before_ready = before_ready
        self._enter = enter
        self._kill = kill

    def begin(self, *, probes: bool) -> None:
        """At a `ready`: its first, or that of a wake."""
        if self._is_on:
            return
        works = self._before_ready(self._run)
        if probes or works is not None:
            self._is_on, self.is_probing = True, probes
            name = f"make-ready-{self._run.instance}"
            self.task = asyncio.create_task(self._make(works), name=name)

    def holds(self, state: ChildState) -> bool:
        """Whether a report of `state` waits until this is over."""
        if self._is_on:
            self._said = state
        return self._is_on

    @property
    def problem(self) -> str:
        """Of a child that has ended while it was probed."""
        return ": ".join(filter(None, [PROBE_FAILED, self._failed]))

    async def _make(self, works: Works | None) -> None:
        if self.is_probing and not await self._generates():
            return
        if works is not None:
            await works()
        self._is_on = False
        self._enter(ChildState.READY)
        if self._said is ChildState.SLEEPING:
            self._enter(ChildState.SLEEPING)

    async def _generates(self) -> bool:
        """Not asked again after a wake: that the preset can is known by then, and a wake has
        somebody waiting whose own request shows it."""
        run = self._run
        self._failed = await run.engine.probe(run.spec, run.address)
        if self._failed:
            logger.warning("%s: %s", run.name, self.problem)
            self._kill()
            return False
        self.is_probing = False
        return True
