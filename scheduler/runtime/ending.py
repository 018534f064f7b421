"""How a run comes to its end: asked to exit, and killed when it does not in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from .instance_run import InstanceRun

logger = logging.getLogger(__name__)


def no_work(run: InstanceRun) -> None:
    """Nothing has to be done before, or after."""


async def exit_after(before: Awaitable[None], run: InstanceRun) -> None:
    try:
        await before
    finally:
        run.ask_exit()


async def killed_in_time(run: InstanceRun, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await run.over.wait()
    except TimeoutError:
        logger.warning("%s did not exit in %g s and is killed", run.name, seconds)
        run.kill()
