"""How a run comes to its end: asked to exit, and killed when it does not in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from .instance_run import InstanceRun

logger = logging.getLogger(__name__)


BeforeExit = Callable[[InstanceRun], Coroutine[Any, Any, None] | None]
"""What is to be done before an instance is asked to exit, if anything."""


async def exit_after(works: Iterable[Coroutine[Any, Any, None]], run: InstanceRun) -> None:
    try:
        await asyncio.gather(*works)
    finally:
        run.ask_exit()


async def killed_in_time(run: InstanceRun, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await run.over.wait()
    except TimeoutError:
        logger.warning("%s did not exit in %g s and is killed", run.name, seconds)
        run.kill()
